//! A headless Chromium, driven through the two pipes of its debugging protocol.

use std::{
    fs::{File, OpenOptions},
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Long enough for a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Browser {
    child: Child,
    to: File,
    from: Receiver<Value>,
    last: u64,
    /// What pages complained about: console errors, exceptions, blocked resources.
    complaints: Vec<String>,
    _home: TempDir,
}

/// A page that is open.
pub struct Tab<'a> {
    browser: &'a mut Browser,
    session: String,
}

impl Browser {
    /// None, with words, where there is no Chromium.
    pub fn start() -> Option<Self> {
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let found = names.iter().find(|name| {
            Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
        });
        let Some(program) = found else {
            prerequisites::skip(
                prerequisites::Need::Program("chromium"),
                "pages are not opened in a browser (as root: apt-get install chromium)",
            );
            return None;
        };
        let home = TempDir::new().unwrap();
        let pipe = |name: &str| home.path().join(name);
        assert!(Command::new("mkfifo").arg(pipe("to")).arg(pipe("from")).status().unwrap().success());
        // The protocol lives on descriptors 3 and 4, which a shell can open.
        let child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<\"$PIPES/to\" 4>\"$PIPES/from\"", program])
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--remote-debugging-pipe",
            ])
            .arg(format!("--user-data-dir={}", pipe("profile").display()))
            .env("PIPES", home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let to = OpenOptions::new().write(true).open(pipe("to")).unwrap();
        let from = File::open(pipe("from")).unwrap();
        let (sender, receiver) = channel();
        thread::spawn(move || {
            for message in BufReader::new(from).split(0).map_while(Result::ok) {
                if sender.send(serde_json::from_slice(&message).unwrap_or(Value::Null)).is_err() {
                    return;
                }
            }
        });
        Some(Self { child, to, from: receiver, last: 0, complaints: Vec::new(), _home: home })
    }

    fn call(&mut self, session: Option<&str>, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": parameters });
        if let Some(session) = session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(message.to_string().as_bytes()).and_then(|()| self.to.write_all(&[0])).unwrap();
        loop {
            let answer = self.from.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{method}: {error}"));
            if answer["id"] == self.last {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            self.note(&answer);
        }
    }

    fn note(&mut self, event: &Value) {
        let parameters = &event["params"];
        match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => {
                self.complaints.push(parameters["exceptionDetails"].to_string())
            }
            Some("Runtime.consoleAPICalled") => self.complaints.push(parameters["args"].to_string()),
            Some("Log.entryAdded") => self.complaints.push(parameters["entry"].to_string()),
            Some("Page.javascriptDialogOpening") => self.complaints.push(format!("dialog: {parameters}")),
            _ => {}
        }
    }

    /// Opens a file in a window of this size.
    pub fn open(&mut self, file: &Path, width: u32, height: u32, dark: bool) -> Tab<'_> {
        let target = self.call(None, "Target.createTarget", json!({ "url": "about:blank" }));
        let id = target["targetId"].as_str().unwrap().to_owned();
        let session = self.call(None, "Target.attachToTarget", json!({ "targetId": id, "flatten": true }));
        let session = session["sessionId"].as_str().unwrap().to_owned();
        let mut tab = Tab { browser: self, session };
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            tab.call(domain, json!({}));
        }
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        tab.call("Emulation.setDeviceMetricsOverride", size);
        let scheme = if dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }, { "name": "prefers-reduced-motion", "value": "reduce" }]);
        tab.call("Emulation.setEmulatedMedia", json!({ "features": features }));
        tab.call("Page.navigate", json!({ "url": format!("file://{}", file.display()) }));
        tab.evaluate("new Promise((done) => { const look = () => document.readyState === 'complete' && location.protocol === 'file:' ? done(true) : setTimeout(look, 20); look(); })");
        tab
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.to.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        for _ in 0..100 {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Tab<'_> {
    fn call(&mut self, method: &str, parameters: Value) -> Value {
        let session = self.session.clone();
        self.browser.call(Some(&session), method, parameters)
    }

    /// The value of an expression in the page; promises are awaited.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        for attempt in 0.. {
            let answer = self.call("Runtime.evaluate", parameters.clone());
            let thrown = &answer["exceptionDetails"];
            if thrown.is_null() {
                return answer["result"]["value"].clone();
            }
            // Navigating takes the page from under the first question.
            let gone = thrown.to_string().contains("context was destroyed") && attempt < 10;
            assert!(gone, "{expression}: {thrown}");
        }
        unreachable!()
    }

    /// The text of an expression.
    pub fn text(&mut self, expression: &str) -> String {
        self.evaluate(expression).as_str().unwrap_or_default().to_owned()
    }

    pub fn number(&mut self, expression: &str) -> f64 {
        self.evaluate(expression).as_f64().unwrap_or(f64::NAN)
    }

    pub fn holds(&mut self, expression: &str) -> bool {
        self.evaluate(expression) == json!(true)
    }

    /// The left button goes down at one point and up at another.
    pub fn drag(&mut self, from: (f64, f64), to: (f64, f64)) {
        let mut mouse = |kind: &str, (x, y): (f64, f64)| {
            let event =
                json!({ "type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", event);
        };
        mouse("mousePressed", from);
        mouse("mouseMoved", ((from.0 + to.0) / 2.0, (from.1 + to.1) / 2.0));
        mouse("mouseMoved", to);
        mouse("mouseReleased", to);
    }

    /// A click with the mouse in the middle of the first element that matches.
    pub fn click(&mut self, selector: &str) {
        let (x, y, width, height) = self.place(selector);
        let middle = (x + width / 2.0, y + height / 2.0);
        self.drag(middle, middle);
    }

    /// A finger on the middle of the first element that matches, as a phone sends it.
    pub fn touch(&mut self, selector: &str) {
        let (x, y, width, height) = self.place(selector);
        let point = json!({ "x": x + width / 2.0, "y": y + height / 2.0 });
        self.call("Emulation.setTouchEmulationEnabled", json!({ "enabled": true }));
        self.call("Input.dispatchTouchEvent", json!({ "type": "touchStart", "touchPoints": [point] }));
        self.call("Input.dispatchTouchEvent", json!({ "type": "touchEnd", "touchPoints": [] }));
        self.evaluate("new Promise((done) => setTimeout(done, 100))");
    }

    /// Where an element is on the screen after scrolling to it: left, top, width, height.
    pub fn place(&mut self, selector: &str) -> (f64, f64, f64, f64) {
        let selector = json!(selector);
        let found = self.evaluate(&format!(
            "(() => {{ const e = document.querySelector({selector}); if (!e) return null; e.scrollIntoView({{ block: 'center' }}); \
             const b = e.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; }})()"
        ));
        let at = |index: usize| found[index].as_f64().unwrap_or_else(|| panic!("no {selector}"));
        (at(0), at(1), at(2), at(3))
    }

    /// One key, as `key` of the DOM names it.
    pub fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            "ArrowLeft" => 37,
            "ArrowRight" => 39,
            other => panic!("no code for the key {other}"),
        };
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let event =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    pub fn write(&mut self, text: &str) {
        self.call("Input.insertText", json!({ "text": text }));
    }

    /// From now on as on paper.
    pub fn print(&mut self) {
        self.call("Emulation.setEmulatedMedia", json!({ "media": "print" }));
    }

    /// A picture of the whole page, or of the window.
    pub fn picture(&mut self, file: &Path, whole: bool) {
        let answer =
            self.call("Page.captureScreenshot", json!({ "format": "png", "captureBeyondViewport": whole }));
        std::fs::write(file, STANDARD.decode(answer["data"].as_str().unwrap()).unwrap()).unwrap();
    }

    /// What the page complained about so far; closes it.
    pub fn close(mut self) -> Vec<String> {
        // What was said before this answer arrived has been noted with it.
        self.evaluate("new Promise((done) => setTimeout(() => done(true), 50))");
        self.call("Page.close", json!({}));
        std::mem::take(&mut self.browser.complaints)
    }
}
