//! Tables that fit: too narrow a terminal first stacks groups of columns under each other, then leaves columns
//! out in a fixed order and says which. Nothing is wrapped inside a cell, nothing is stretched.

use anstyle::Style;

use crate::{
    layout::prose::width,
    layout::style::{HEADING, PLAIN, QUIET, paint},
};

/// Blanks between two columns.
const GAP: usize = 2;

/// One column's head and its place in the order of leaving out.
#[derive(Clone, Debug)]
pub struct Column {
    title: String,
    name: Option<String>,
    group: Option<String>,
    left: bool,
    part: usize,
    drop_rank: u8,
}

impl Column {
    /// A right-aligned column that is never left out.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), name: None, group: None, left: false, part: 0, drop_rank: 0 }
    }

    /// Left-aligned: for words.
    pub fn left(mut self) -> Self {
        self.left = true;
        self
    }

    /// Neighbours of the same group share a head, which also names their unit.
    pub fn group(mut self, name: impl Into<String>) -> Self {
        self.group = Some(name.into());
        self
    }

    /// Columns of one part stay side by side; parts may be stacked. The first column is repeated on each.
    pub fn part(mut self, part: usize) -> Self {
        self.part = part;
        self
    }

    /// May be left out: the highest rank goes first, 0 never.
    pub fn drop_rank(mut self, rank: u8) -> Self {
        self.drop_rank = rank;
        self
    }

    /// How running text names the column, if not by its title.
    pub fn called(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}

/// One value, ready to be shown.
#[derive(Clone, Debug)]
pub struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A value in a style of [`crate::layout::style`].
    pub fn styled(text: impl Into<String>, style: Style) -> Self {
        Self { text: text.into(), style }
    }

    /// The value without its style.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::styled(text, PLAIN)
    }
}

/// Rows under columns. The first column is the key.
#[derive(Clone, Debug, Default)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

/// A table as text, and what had no room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// Lines, each with its end.
    pub text: String,
    /// Names of the columns left out.
    pub left_out: Vec<String>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: Vec<Column>) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row; absent cells at its end are blank.
    pub fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// The table in at most `limit` terminal columns, if its indispensable columns allow.
    pub fn render(&self, limit: usize) -> Rendered {
        let mut rendered = Rendered { text: String::new(), left_out: Vec::new() };
        for mut shown in self.stacks(limit) {
            while self.span(&shown) > limit {
                let droppable = shown.iter().copied().filter(|&c| self.columns[c].drop_rank > 0);
                let Some(dropped) = droppable.max_by_key(|&c| self.columns[c].drop_rank) else {
                    break;
                };
                shown.retain(|&c| c != dropped);
                let Column { title, name, .. } = &self.columns[dropped];
                rendered.left_out.push(name.as_ref().unwrap_or(title).clone());
            }
            if !rendered.text.is_empty() {
                rendered.text.push('\n');
            }
            rendered.text += &self.draw(&shown);
        }
        rendered
    }

    /// Column numbers of each stacked table: parts share one as long as they fit. A part that may be left out
    /// altogether is not worth a table of its own.
    fn stacks(&self, limit: usize) -> Vec<Vec<usize>> {
        let mut stacks: Vec<Vec<usize>> = Vec::new();
        let parts = self.columns.len().min(1)..self.columns.len();
        for part in parts.collect::<Vec<_>>().chunk_by(|&a, &b| self.columns[a].part == self.columns[b].part)
        {
            match stacks.last_mut() {
                Some(last)
                    if part.iter().all(|&c| self.columns[c].drop_rank > 0)
                        || self.span(&[last, part].concat()) <= limit =>
                {
                    last.extend(part);
                }
                _ => stacks.push([&[0], part].concat()),
            }
        }
        if stacks.is_empty() && !self.columns.is_empty() {
            stacks.push(vec![0]);
        }
        stacks
    }

    /// Terminal columns taken by these columns side by side.
    fn span(&self, shown: &[usize]) -> usize {
        let widths = self.widths(shown);
        widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
    }

    /// Width of each shown column; a group wider than its columns widens its first.
    fn widths(&self, shown: &[usize]) -> Vec<usize> {
        let of_cells =
            |c: usize| self.rows.iter().filter_map(|row| row.get(c)).map(|cell| width(&cell.text)).max();
        let mut widths: Vec<usize> =
            shown.iter().map(|&c| width(&self.columns[c].title).max(of_cells(c).unwrap_or(0))).collect();
        let mut start = 0;
        for group in self.groups(shown) {
            let label = group[0].group.as_deref().map_or(0, width);
            let span = widths[start..start + group.len()].iter().sum::<usize>() + GAP * (group.len() - 1);
            widths[start] += label.saturating_sub(span);
            start += group.len();
        }
        widths
    }

    /// Shown columns cut into runs of the same group; ungrouped columns stand alone.
    fn groups(&self, shown: &[usize]) -> Vec<Vec<&Column>> {
        let columns: Vec<&Column> = shown.iter().map(|&c| &self.columns[c]).collect();
        columns.chunk_by(|a, b| a.group.is_some() && a.group == b.group).map(<[&Column]>::to_vec).collect()
    }

    fn draw(&self, shown: &[usize]) -> String {
        let widths = self.widths(shown);
        let mut out = self.group_line(shown, &widths);
        let titles: Vec<Cell> =
            shown.iter().map(|&c| Cell::styled(self.columns[c].title.clone(), HEADING)).collect();
        out += &self.line(shown, &widths, |i, _| titles.get(i));
        out += &paint(QUIET, &"─".repeat(self.span(shown)));
        out.push('\n');
        for row in &self.rows {
            out += &self.line(shown, &widths, |_, c| row.get(c));
        }
        out
    }

    /// The heads shared by neighbours; empty if there are none.
    fn group_line(&self, shown: &[usize], widths: &[usize]) -> String {
        if shown.iter().all(|&c| self.columns[c].group.is_none()) {
            return String::new();
        }
        let mut out = String::new();
        let (mut start, mut pending) = (0, 0);
        for group in self.groups(shown) {
            let span = widths[start..start + group.len()].iter().sum::<usize>() + GAP * (group.len() - 1);
            start += group.len();
            if let Some(label) = &group[0].group {
                out += &" ".repeat(pending);
                out += &centred(label, span);
                pending = GAP;
            } else {
                pending += span + GAP;
            }
        }
        out.push('\n');
        out
    }

    fn line<'a>(
        &self,
        shown: &[usize],
        widths: &[usize],
        cell: impl Fn(usize, usize) -> Option<&'a Cell>,
    ) -> String {
        let mut out = String::new();
        let mut pending = 0;
        for (i, &c) in shown.iter().enumerate() {
            let (text, style) = cell(i, c).map_or(("", PLAIN), |cell| (&*cell.text, cell.style));
            let blank = widths[i].saturating_sub(width(text));
            // Blanks are owed, not written, so that no line ends in them.
            let (before, after) = if self.columns[c].left { (0, blank) } else { (blank, 0) };
            if text.is_empty() {
                pending += blank + GAP;
                continue;
            }
            out += &" ".repeat(pending + before);
            out += &paint(style, text);
            pending = after + GAP;
        }
        out.push('\n');
        out
    }
}

/// `label` in the middle of a rule as long as the columns it stands over.
fn centred(label: &str, span: usize) -> String {
    let free = span.saturating_sub(width(label));
    if free < 4 {
        return format!("{}{}", " ".repeat(free), paint(HEADING, label));
    }
    let (before, after) = ((free - 2) / 2, (free - 2).div_ceil(2));
    format!(
        "{} {} {}",
        paint(QUIET, &"─".repeat(before)),
        paint(HEADING, label),
        paint(QUIET, &"─".repeat(after))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new(vec![
            Column::new("level").left(),
            Column::new("ns").group("latency").part(1),
            Column::new("cycles").group("latency").part(1).drop_rank(1),
            Column::new("load").group("one core, GB/s").part(2),
            Column::new("copy").called("copy bandwidth").group("one core, GB/s").part(2).drop_rank(2),
        ]);
        table.row(vec!["L1".into(), "1.3".into(), "5.0".into(), "231".into(), "187".into()]);
        table.row(vec!["memory".into(), "102".into(), "–".into(), "11.2".into()]);
        table
    }

    fn plain(limit: usize) -> (String, Vec<String>) {
        let rendered = sample().render(limit);
        (anstream::adapter::strip_str(&rendered.text).to_string(), rendered.left_out)
    }

    #[test]
    fn wide_is_one_table_and_not_stretched() {
        let (text, left_out) = plain(200);
        insta::assert_snapshot!(text);
        assert!(left_out.is_empty());
    }

    #[test]
    fn narrow_stacks_then_leaves_out() {
        let (stacked, left_out) = plain(24);
        assert_eq!(stacked.matches("level").count(), 2, "{stacked}");
        assert!(left_out.is_empty());
        let (_, left_out) = plain(12);
        assert_eq!(left_out, ["cycles", "copy bandwidth"]);
    }

    #[test]
    fn no_line_is_wider_than_asked_or_ends_in_blanks() {
        for limit in 22..60 {
            let (text, _) = plain(limit);
            for line in text.lines() {
                assert!(width(line) <= limit, "{limit}:\n{text}");
                assert_eq!(line.trim_end(), line);
            }
        }
    }

    #[test]
    fn nothing_to_show() {
        assert_eq!(Table::default().render(80).text, "");
        assert!(Table::new(vec![Column::new("size")]).render(80).text.contains("size"));
    }
}
