//! Bars of eighths of a character.

/// A bar of `share` of `width` characters; anything above nothing shows.
pub fn bar(share: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize;
    let eighths = if share > 0.0 { eighths.max(1) } else { eighths };
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

/// A column of height `share` of one character; a dot where there is nothing to show.
pub fn column(share: Option<f64>) -> char {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    share.map_or('·', |share| HEIGHTS[((share.clamp(0.0, 1.0) * 8.0) as usize).min(7)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_follow_shares() {
        assert_eq!(bar(0.0, 10), "");
        assert_eq!(bar(0.000_1, 10), "▏");
        assert_eq!(bar(0.5, 10), "█████");
        assert_eq!(bar(1.5, 4), "████");
        assert_eq!(bar(0.45, 10), "████▌");
    }

    #[test]
    fn heights_follow_shares() {
        assert_eq!([Some(0.0), Some(0.5), Some(1.0), None].map(column), ['▁', '▅', '█', '·']);
    }
}
