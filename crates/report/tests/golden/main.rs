//! Reports of hand-made results, as files to read. After a wanted change run
//! `INSTA_UPDATE=always cargo test -p memwall-report --test golden` and read the difference.
#![deny(unsafe_code)]

mod bench;
mod benches;
mod profile;
mod profiles;

/// The text as a pipe would get it.
fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

/// What holds for every report, whatever it shows.
fn check(text: &str, columns: usize) {
    for line in text.lines() {
        let taken = unicode_width::UnicodeWidthStr::width(line);
        assert!(taken <= columns, "{taken} columns, {columns} allowed: {line}\n{text}");
        assert_eq!(line.trim_end(), line, "blanks at the end of a line:\n{text}");
    }
    assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "one line end at the end:\n{text}");
    assert!(!text.contains("NaN") && !text.contains("inf "), "{text}");
}
