//! Markup that is escaped by construction: text and attribute values go in as they are and come out harmless.

use machine::letters;

/// Finished markup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Html(String);

impl Html {
    /// Text, escaped.
    pub fn text(text: &str) -> Self {
        let mut out = String::with_capacity(text.len());
        escape(&shown(text), &mut out);
        Self(out)
    }

    /// Several pieces after each other.
    pub fn all(pieces: impl IntoIterator<Item = Html>) -> Self {
        Self(pieces.into_iter().map(|piece| piece.0).collect())
    }

    /// The text of the markup.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// An element being built.
#[derive(Clone, Debug)]
pub struct MarkupElement {
    tag: &'static str,
    attributes: String,
    children: String,
}

/// An element without attributes or children.
pub fn element(tag: &'static str) -> MarkupElement {
    MarkupElement { tag, attributes: String::new(), children: String::new() }
}

impl MarkupElement {
    /// With an attribute.
    pub fn set(mut self, name: &'static str, value: impl ToString) -> Self {
        self.attributes.push(' ');
        self.attributes += name;
        self.attributes += "=\"";
        escape(&shown(&value.to_string()), &mut self.attributes);
        self.attributes.push('"');
        self
    }

    /// With more children.
    pub fn with(mut self, children: impl IntoIterator<Item = Html>) -> Self {
        self.children.extend(children.into_iter().map(|child| child.0));
        self
    }

    /// With text after the children it has.
    pub fn say(self, text: impl AsRef<str>) -> Self {
        let text = Html::text(text.as_ref());
        self.with([text])
    }

    /// Finished; an element without children closes itself where that is allowed.
    pub fn end(self) -> Html {
        let Self { tag, attributes, children } = self;
        match (children.is_empty(), tag) {
            (true, "path" | "rect" | "line" | "circle" | "polyline" | "polygon" | "use") => {
                Html(format!("<{tag}{attributes}/>"))
            }
            _ => Html(format!("<{tag}{attributes}>{children}</{tag}>")),
        }
    }
}

/// A heading and what is under it, reachable by `id`.
pub fn section(id: &'static str, title: &str, content: impl IntoIterator<Item = Html>) -> Html {
    let heading = element("h2").set("id", format!("{id}-title")).say(title).end();
    element("section")
        .set("id", id)
        .set("aria-labelledby", format!("{id}-title"))
        .with([heading])
        .with(content)
        .end()
}

/// One paragraph.
pub fn paragraph(class: &str, text: &str) -> Html {
    let element = element("p");
    if class.is_empty() { element } else { element.set("class", class) }.say(text).end()
}

/// A list of sentences; nothing of none.
pub fn list<T: AsRef<str>>(class: &str, sentences: impl IntoIterator<Item = T>) -> Html {
    let items: Vec<Html> = sentences.into_iter().map(|text| element("li").say(text).end()).collect();
    match items.is_empty() {
        true => Html::default(),
        false => element("ul").set("class", class).with(items).end(),
    }
}

/// Names and what they stand for, side by side.
pub fn facts(pairs: impl IntoIterator<Item = (String, String)>) -> Html {
    let rows = pairs.into_iter().map(|(name, value)| {
        element("div").with([element("dt").say(name).end(), element("dd").say(value).end()]).end()
    });
    element("dl").set("class", "facts").with(rows).end()
}

/// A text that programs chose, without what could disturb its surroundings: control characters and marks that turn the
/// direction of writing are shown, not obeyed.
pub fn shown(text: &str) -> String {
    let steers = |letter: char| letter != '\n' && letters::steers(letter);
    text.chars().map(|letter| if steers(letter) { letters::SIGN } else { letter }).collect()
}

fn escape(text: &str, out: &mut String) {
    for letter in text.chars() {
        match letter {
            '&' => *out += "&amp;",
            '<' => *out += "&lt;",
            '>' => *out += "&gt;",
            '"' => *out += "&quot;",
            '\'' => *out += "&#39;",
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_text_or_attribute() {
        let built = element("p").set("title", "\"><script>").say("</p>&'").end();
        assert_eq!(built.as_str(), "<p title=\"&quot;&gt;&lt;script&gt;\">&lt;/p&gt;&amp;&#39;</p>");
    }

    #[test]
    fn what_steers_is_shown() {
        assert_eq!(
            shown("a\u{1b}[31m\u{202e}b\u{2066}\0c\u{2028}"),
            "a\u{fffd}[31m\u{fffd}b\u{fffd}\u{fffd}c\u{fffd}"
        );
        assert_eq!(shown("größe::名前 שלום"), "größe::名前 שלום");
    }
}
