//! Long names cut to fit a table's column, the function's own name last to go.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::prose::visible;

/// Names are cut to no less than this.
const NARROWEST: usize = 16;

/// A function's name as tables and sentences show it.
#[must_use]
pub fn function_name(name: &str, room: usize) -> String {
    shorten(&visible(name), room.max(NARROWEST))
}

/// A data object's name: the function that allocated it is shortened as functions are, the middle of others goes.
#[must_use]
pub fn object_name(name: &str, room: usize) -> String {
    const BETWEEN: &str = " from ";
    let (name, room) = (visible(name), room.max(NARROWEST));
    if let Some((what, function)) = name.split_once(BETWEEN)
        && let Some(left) =
            room.checked_sub(what.width() + BETWEEN.len()).filter(|left| *left >= NARROWEST / 2)
    {
        return format!("{what}{BETWEEN}{}", shorten(function, left));
    }
    let count = name.chars().count();
    if count <= room {
        return name;
    }
    let (head, tail) = (room / 2, room - room / 2 - 1);
    name.chars().take(head).chain(['…']).chain(name.chars().skip(count - tail)).collect()
}

/// A sentence with the program's functions as tables show them: those of templates have no end.
#[must_use]
pub fn with_short_names<'a>(
    sentence: &str,
    functions: impl IntoIterator<Item = &'a str>,
    room: usize,
) -> String {
    let mut long: Vec<&str> =
        functions.into_iter().filter(|name| name.width() > room && sentence.contains(name)).collect();
    // One name may be a part of another.
    long.sort_by_key(|name| std::cmp::Reverse(name.len()));
    long.dedup();
    long.iter().fold(sentence.to_owned(), |text, name| text.replace(name, &function_name(name, room)))
}

/// C++ operators whose characters would read as brackets, longest first.
const BRACKET_OPERATORS: [&str; 14] =
    ["<<=", ">>=", "<=>", "->*", "()", "[]", "<<", ">>", "<=", ">=", "->", "<", ">", "=>"];

/// The signature in at most `width` columns. What is left out goes in this order, and no further than needed:
/// parameters, template and generic arguments, the return type, the outer namespaces, the end of the name.
///
/// ```
/// use report::layout::signature::shorten;
/// let name = "std::vector<int, std::allocator<int> >::push_back(int&&)";
/// assert_eq!(shorten(name, 60), name);
/// assert_eq!(shorten(name, 55), "std::vector<int, std::allocator<int> >::push_back(…)");
/// assert_eq!(shorten(name, 30), "std::vector<…>::push_back(…)");
/// assert_eq!(shorten(name, 25), "…::push_back(…)");
/// assert_eq!(shorten(name, 9), "push_back");
/// assert_eq!(shorten(name, 6), "push_…");
/// ```
#[must_use]
pub fn shorten(signature: &str, width: usize) -> String {
    let fits = |text: &str| text.width() <= width;
    if fits(signature) {
        return signature.to_owned();
    }
    let mut short = reduce(signature, false);
    if fits(&short) {
        return short;
    }
    short = reduce(signature, true);
    if fits(&short) {
        return short;
    }
    let mut path = without_return_type(&short);
    if fits(path) {
        return path.to_owned();
    }
    while let Some((_, inner)) = split_path(path) {
        path = inner;
        let marked = format!("…::{path}");
        if fits(&marked) {
            return marked;
        }
    }
    if fits(path) {
        return path.to_owned();
    }
    cut(without_parameters(path), width)
}

/// Parameters become `(…)`; with `generics`, arguments become `<…>` and `<a::B as c::D>` becomes `<B as D>`.
fn reduce(signature: &str, generics: bool) -> String {
    let mut out = String::with_capacity(signature.len());
    let mut rest = signature;
    while let Some(character) = rest.chars().next() {
        let opaque = opaque_len(rest, &out);
        if opaque > 0 {
            out.push_str(&rest[..opaque]);
            rest = &rest[opaque..];
            continue;
        }
        let close = if matches!(character, '<' | '(') { closing(rest) } else { None };
        match (character, close) {
            ('(', Some(close)) => {
                out.push_str(if close == 1 { "()" } else { "(…)" });
                rest = &rest[close + 1..];
            }
            ('<', Some(close)) if !generics => {
                out.push_str(&rest[..=close]);
                rest = &rest[close + 1..];
            }
            ('<', Some(close)) => {
                let starts_a_path = !out.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
                let inner = &rest[1..close];
                out.push_str(&if starts_a_path {
                    format!("<{}>", qualified(inner))
                } else {
                    "<…>".to_owned()
                });
                rest = &rest[close + 1..];
            }
            _ => {
                out.push(character);
                rest = &rest[character.len_utf8()..];
            }
        }
    }
    out
}

/// How many bytes at the start of `rest` are to be copied although they hold brackets.
fn opaque_len(rest: &str, before: &str) -> usize {
    const ANONYMOUS: &str = "(anonymous namespace)";
    if rest.starts_with(ANONYMOUS) {
        return ANONYMOUS.len();
    }
    if rest.starts_with("->") {
        return 2;
    }
    let starts_a_word = !before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    match rest.strip_prefix("operator") {
        Some(tail) if starts_a_word => BRACKET_OPERATORS
            .iter()
            .find(|symbol| tail.starts_with(**symbol))
            .map_or(0, |symbol| "operator".len() + symbol.len()),
        _ => 0,
    }
}

/// Where the bracket that opens `text` is closed.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    let mut previous = ' ';
    for (index, character) in text.char_indices() {
        match character {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' if previous == '-' => {}
            '>' | ')' | ']' | '}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(index);
        }
        previous = character;
    }
    None
}

/// `a::B<C> as d::E` → `B as E`.
fn qualified(inner: &str) -> String {
    let last = |path: &str| {
        let reduced = reduce(path, true);
        let name = reduced.rsplit("::").next().unwrap_or_default();
        name.strip_suffix("<…>").unwrap_or(name).to_owned()
    };
    match inner.split_once(" as ") {
        Some((kind, behaviour)) if closing(&format!("({kind})")) == Some(kind.len() + 1) => {
            format!("{} as {}", last(kind), last(behaviour))
        }
        _ => last(inner),
    }
}

/// Cuts `void ` and the like before the name. Only templates carry a return type in their mangled name.
fn without_return_type(short: &str) -> &str {
    let name_end = short.find("(…)").or_else(|| short.find("()")).unwrap_or(0);
    let name_end = short.find("operator").map_or(name_end, |operator| name_end.min(operator));
    let mut depth = 0usize;
    let mut start = 0;
    for (index, character) in short[..name_end].char_indices() {
        match character {
            '<' | '(' => depth += 1,
            '>' | ')' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 => start = index + 1,
            _ => {}
        }
    }
    &short[start..]
}

/// The outermost namespace, and the rest.
fn split_path(path: &str) -> Option<(&str, &str)> {
    let mut depth = 0usize;
    for (index, character) in path.char_indices() {
        match character {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            ':' if depth == 0 && path[index..].starts_with("::") => {
                return Some((&path[..index], &path[index + 2..])).filter(|(_, rest)| !rest.is_empty());
            }
            _ => {}
        }
    }
    None
}

/// The name alone. `()` may be the name's end: `operator()`.
fn without_parameters(path: &str) -> &str {
    let empty = || path.rfind("()").filter(|at| !path[..*at].ends_with("operator"));
    path.find("(…)").or_else(empty).map_or(path, |at| &path[..at])
}

/// The start of the text with an ellipsis.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 1;
    for character in text.chars() {
        used += character.width().unwrap_or(0);
        if used > width {
            break;
        }
        kept.push(character);
    }
    if width > 0 {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sentences_have_names_as_tables_do() {
        let long = "std::_Rb_tree<int, std::pair<int const, long>, std::less<int> >::_M_insert_unique(int&&)";
        let said = format!("It loads from all over memory in {long} (stl_tree.h:12): sort.");
        let functions = ["main", long, "std::_Rb_tree<int, std::pair<int const, long>, std::less<int> >"];
        assert_eq!(
            with_short_names(&said, functions, 40),
            "It loads from all over memory in std::_Rb_tree<…>::_M_insert_unique(…) (stl_tree.h:12): sort."
        );
        assert_eq!(with_short_names("in main", functions, 40), "in main");
    }

    #[test]
    fn rust_paths_keep_type_and_trait() {
        let name = "<alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop";
        assert_eq!(shorten(name, 25), "<Vec as Drop>::drop");
        assert_eq!(shorten(name, 10), "…::drop");
        let generic = "core::iter::traits::iterator::Iterator::fold::<(), core::fmt::Formatter>";
        assert_eq!(shorten(generic, 60), "core::iter::traits::iterator::Iterator::fold::<…>");
    }

    #[test]
    fn return_types_go_before_namespaces() {
        let name = "void ns::walk<int, float>(int, float)";
        assert_eq!(shorten(name, 24), "void ns::walk<…>(…)");
        assert_eq!(shorten(name, 16), "ns::walk<…>(…)");
    }

    #[test]
    fn operators_are_no_brackets() {
        assert_eq!(shorten("a::B::operator()(int, int, int)", 22), "a::B::operator()(…)");
        assert_eq!(shorten("a::operator<<(std::ostream&, a::B const&)", 22), "a::operator<<(…)");
        assert_eq!(shorten("(anonymous namespace)::walk(long, long)", 32), "(anonymous namespace)::walk(…)");
    }

    #[test]
    fn templates_go_in_the_middle_and_no_name_ends_at_a_bracket() {
        let sort = "void std::__introsort_loop<__gnu_cxx::__normal_iterator<int*, std::vector<int> >, long, \
                    __gnu_cxx::__ops::_Iter_less_iter>(__gnu_cxx::__normal_iterator<int*, std::vector<int> >, long)";
        assert_eq!(function_name(sort, 31), "std::__introsort_loop<…>(…)");
        assert_eq!(
            function_name("(anonymous namespace)::walk_through_everything(long)", 32),
            "…::walk_through_everything(…)"
        );
        assert_eq!(
            function_name("main::{lambda(int)#1}::operator()(int) const", 32),
            "…::operator()(…) const"
        );
        let object = "block of 128 MiB from std::vector<long, std::allocator<long> >::_M_default_append(unsigned long)";
        assert_eq!(object_name(object, 48), "block of 128 MiB from …::_M_default_append(…)");
        assert_eq!(
            object_name("file /usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30", 32),
            "file /usr/lib/x8…tdc++.so.6.0.30"
        );
    }

    #[test]
    fn plain_names_are_cut_at_the_end() {
        assert_eq!(shorten("a_very_long_c_function", 10), "a_very_lo…");
        assert_eq!(shorten("unbalanced<(", 5), "unba…");
        assert_eq!(shorten("anything", 0), "");
    }

    proptest! {
        #[test]
        fn the_width_is_kept(text in "[a-zé<>():, \\-&*]{0,60}", width in 0usize..70) {
            prop_assert!(shorten(&text, width).width() <= width);
        }

        #[test]
        fn the_functions_name_survives(
            path in prop::collection::vec("[a-z]{1,8}(<[a-z]{1,8}>)?", 0..4),
            name in "[a-z]{1,12}",
            parameters in "[a-z, ]{0,30}",
        ) {
            let signature = format!("{}{name}({parameters})", path.iter().fold(String::new(), |all, one| all + one + "::"));
            for width in name.len()..signature.len() {
                prop_assert!(shorten(&signature, width).contains(&name), "{signature} in {width}");
            }
        }
    }
}
