//! Two functions of one name in one program, as C files have them.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

use super::place::{Recorded, can_sample, memwall, number};

/// Two files with a `static work()` each; the second takes more of the time.
fn program(folder: &Path) -> std::path::PathBuf {
    let file = |name: &str, body: &str, times: &str| {
        let text = format!(
            "static __attribute__((noinline)) unsigned work(unsigned x) {{\n\
             \x20   for (unsigned i = 0; i < {times}u; i++) {body};\n    return x;\n}}\n\
             unsigned {name}(unsigned x) {{ return work(x); }}\n"
        );
        fs::write(folder.join(format!("{name}.c")), text).expect("a file");
    };
    file("cold", "x = x * 5 + i", "150000000");
    file("warm", "x = (x ^ i) / 3", "250000000");
    let main = "unsigned cold(unsigned), warm(unsigned);\n\
                int main(int n, char **v) { (void)v; return (cold(n) + warm(n)) == 7; }\n";
    fs::write(folder.join("main.c"), main).expect("a file");
    let program = folder.join("both");
    let mut gcc = Command::new("gcc");
    gcc.current_dir(folder).args(["-O1", "-g", "cold.c", "warm.c", "main.c", "-o"]).arg(&program);
    assert!(gcc.status().expect("gcc starts").success());
    program
}

/// What the page's script works on.
fn payload(page: &str) -> Value {
    let from = page.split("id=\"data\">").nth(1).expect("data");
    serde_json::from_str(from.split("</script>").next().expect("its end")).expect("JSON")
}

#[test]
fn each_shows_its_own_code_in_the_findings_and_on_the_page() {
    if !can_sample() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let recorded = Recorded::new(&[], &program(folder.path()), &[]);
    let findings = recorded.findings();
    let file = folder.path().join("page.html");
    let status = memwall().arg("report").arg(recorded.file()).arg("--html").arg(&file).status();
    assert!(status.expect("memwall").success());
    let page = payload(&fs::read_to_string(&file).expect("a page"));
    let symbols = page["symbols"].as_array().expect("symbols");
    let own: Vec<usize> = (0..symbols.len()).filter(|&row| symbols[row]["name"] == "work").collect();
    assert_eq!(own.len(), 2, "{symbols:?}");
    assert_ne!(findings["symbols"][own[0]]["function"], findings["symbols"][own[1]]["function"]);
    let mut files = Vec::new();
    for row in own {
        let listed = page["functions"].as_array().expect("functions").iter();
        let function = listed.clone().find(|function| function["symbol"] == row).expect("its code");
        let lines = function["lines"].as_array().expect("lines");
        let samples: f64 = lines.iter().map(|line| number(line, "/3")).sum();
        let all = number(&symbols[row], "/samples");
        // Each line is rounded to a tenth of a sample.
        assert!((samples - all).abs() <= 0.05 * lines.len() as f64 && all > 0.0, "{samples} of {all}");
        files.push(function["files"][0].as_str().expect("a file").rsplit('/').next().map(str::to_owned));
    }
    files.sort();
    assert_eq!(files, [Some("cold.c".to_owned()), Some("warm.c".to_owned())]);
}
