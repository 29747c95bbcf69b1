//! The page around a report: one file with its style, its script and its data, and nothing from elsewhere.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::markup::{Html, element};

const STYLE: &str = concat!(include_str!("assets/page.css"), include_str!("assets/parts.css"));

/// One script of all files, in the order they need each other.
const SCRIPT: &str = concat!(
    "\"use strict\";\n(() => {\n",
    include_str!("assets/dom.js"),
    include_str!("assets/theme.js"),
    include_str!("assets/touch.js"),
    include_str!("assets/figures.js"),
    include_str!("assets/table.js"),
    include_str!("assets/bars.js"),
    include_str!("assets/selection.js"),
    include_str!("assets/timeline.js"),
    include_str!("assets/views.js"),
    include_str!("assets/flame.js"),
    include_str!("assets/code.js"),
    include_str!("assets/data.js"),
    include_str!("assets/events.js"),
    include_str!("assets/main.js"),
    "})();\n"
);

/// A whole page.
pub struct PageFrame<T> {
    /// Shown by the browser's tab and as the first heading.
    pub title: String,
    /// What the report is of, in a word or two: above the title.
    pub kind: &'static str,
    /// Under the title.
    pub subtitle: Vec<String>,
    /// Sections to jump to: `id`, name.
    pub contents: Vec<(&'static str, &'static str)>,
    /// The sections.
    pub body: Html,
    /// What the script works on.
    pub data: T,
}

impl<T: Serialize> PageFrame<T> {
    /// The file.
    pub fn render(&self) -> String {
        let policy = format!(
            "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; base-uri 'none'; form-action 'none'",
            digest(SCRIPT),
            digest(STYLE)
        );
        let policy = element("meta").set("http-equiv", "Content-Security-Policy").set("content", policy);
        let title = element("title").say(format!("{} – memwall", self.title)).end();
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n{}\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">\n<link rel=\"icon\" href=\"data:,\">\n{}\n<style>{STYLE}</style>\n</head>\n<body>\n\
             {}\n{}\n<main id=\"main\" tabindex=\"-1\">\n{}\n</main>\n{}\n\
             <script type=\"application/json\" id=\"data\">{}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
            policy.end().as_str().trim_end_matches("</meta>"),
            title.as_str(),
            self.header().as_str(),
            self.navigation().as_str(),
            self.body.as_str(),
            footer().as_str(),
            json(&self.data)
        )
    }

    fn header(&self) -> Html {
        let skip = element("a").set("class", "skip").set("href", "#main").say("Skip to the report").end();
        let theme = element("button")
            .set("id", "theme")
            .set("type", "button")
            .set("hidden", "")
            .say("Theme: as the system")
            .end();
        let kind = element("p").set("class", "kind").say(format!("memwall · {}", self.kind)).end();
        let title = element("h1").say(&self.title).end();
        let lines = self.subtitle.iter().map(|line| element("p").set("class", "quiet").say(line).end());
        let words = element("div").with([kind, title]).with(lines).end();
        let noscript = element("noscript").say(
            "This browser runs no scripts here: tables, bars and the time line stay empty. The rest is complete.",
        );
        Html::all([skip, element("header").with([words, theme, noscript.end()]).end()])
    }

    fn navigation(&self) -> Html {
        let links = self.contents.iter().map(|(id, name)| {
            element("li").with([element("a").set("href", format!("#{id}")).say(name).end()]).end()
        });
        let list = element("ul").with(links).end();
        element("nav").set("aria-label", "Sections").with([list]).end()
    }
}

fn footer() -> Html {
    let text = format!("Made by memwall {}. This file needs no network.", env!("CARGO_PKG_VERSION"));
    element("footer").say(text).end()
}

fn digest(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text))
}

/// Data inside a page: nothing in it can end the script element.
fn json(data: &impl Serialize) -> String {
    // Plain values and texts always have a JSON form.
    let text = serde_json::to_string(data).unwrap_or_else(|_| "null".to_owned());
    text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use analysis::findings::ThreadActivity;

    use super::*;
    use crate::html::run::payload::activity_key;

    #[test]
    fn data_cannot_end_its_element() {
        assert_eq!(json(&["</script><!--&"]), "[\"\\u003c/script\\u003e\\u003c!--\\u0026\"]");
        assert_eq!(serde_json::from_str::<Vec<String>>(&json(&["<&>"])).ok(), Some(vec!["<&>".to_owned()]));
    }

    /// The light and the dark form of a colour of the page.
    fn colours(name: &str) -> [[f64; 3]; 2] {
        let (_, rest) = STYLE.split_once(&format!("--{name}: light-dark(")).expect("a colour of the page");
        let forms: Vec<&str> = rest.split([')', ',']).map(str::trim).take(2).collect();
        let part = |form: &str, at: usize| u8::from_str_radix(&form[at..at + 2], 16).expect("digits");
        [forms[0], forms[1]].map(|form| [1, 3, 5].map(|at| f64::from(part(form, at)) / 255.0))
    }

    /// Relative luminance as WCAG 2 defines it.
    fn luminance(colour: [f64; 3]) -> f64 {
        let linear = colour
            .map(|part| if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    }

    /// The page's two themes have at least this contrast between colours and what may be behind them.
    fn stands_out(colour: &str, least: f64) {
        for behind in ["back", "panel"] {
            for (form, behind_form) in colours(colour).into_iter().zip(colours(behind)) {
                let (a, b) = (luminance(form) + 0.05, luminance(behind_form) + 0.05);
                let contrast = (a / b).max(b / a);
                assert!(contrast >= least, "{colour} on {behind}: {contrast:.2}");
            }
        }
    }

    #[test]
    fn text_and_bars_stand_out_from_what_is_behind_them() {
        for text in ["text", "quiet", "link", "bad", "warn", "good"] {
            stands_out(text, 4.5);
        }
        for activity in ThreadActivity::ALL {
            stands_out(&activity_key(activity), 3.0);
        }
    }

    #[test]
    fn scripts_never_parse_text_as_markup() {
        for banned in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "Function(",
            "http:",
            "https:",
        ] {
            let found = SCRIPT.replace("http://www.w3.org/2000/svg", "").contains(banned);
            assert!(!found, "{banned}");
        }
        assert!(!SCRIPT.contains("</script") && !STYLE.contains("</style") && !STYLE.contains("url("));
    }
}
