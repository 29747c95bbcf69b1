//! Values in place of words like `{threads}` in a command.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
};

/// An argument with a value in place of each placeholder; bytes that are no text stay as they are.
pub fn filled_in(word: &OsStr, placeholder: &str, value: &str) -> OsString {
    let (bytes, placeholder) = (word.as_bytes(), placeholder.as_bytes());
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [first, others @ ..] = rest {
        match rest.strip_prefix(placeholder).filter(|_| !placeholder.is_empty()) {
            Some(behind) => {
                out.extend_from_slice(value.as_bytes());
                rest = behind;
            }
            None => {
                out.push(*first);
                rest = others;
            }
        }
    }
    OsString::from_vec(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_filled_and_other_bytes_stay() {
        let filled = |word: &[u8]| filled_in(OsStr::from_bytes(word), "{n}", "16").into_vec();
        assert_eq!(filled(b"-s{n}x{n}"), b"-s16x16");
        assert_eq!(filled(b"\xff{n}{m}"), b"\xff16{m}");
        assert_eq!(filled(b""), b"");
    }
}
