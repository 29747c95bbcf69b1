//! The files of docs/schemas, and what documents say of their form.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas")
}

pub fn file_of(schema: &str) -> PathBuf {
    folder().join(format!("{}.json", schema.replace('/', ".")))
}

/// What all of these values have in common.
fn schema_of(values: &[&Value]) -> Value {
    let kind = |value: &&Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let mut kinds: Vec<&str> = values.iter().map(kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut schema = Map::new();
    // Of a value that was never there nothing is known.
    if kinds != ["null"] && !kinds.is_empty() {
        schema.insert("type".to_owned(), if let [one] = kinds[..] { json!(one) } else { json!(kinds) });
    }
    let items: Vec<&Value> = values.iter().filter_map(|value| value.as_array()).flatten().collect();
    if !items.is_empty() {
        schema.insert("items".to_owned(), schema_of(&items));
    }
    let objects: Vec<&Map<String, Value>> = values.iter().filter_map(|value| value.as_object()).collect();
    if !objects.is_empty() {
        let mut fields: BTreeMap<&String, Vec<&Value>> = BTreeMap::new();
        objects.iter().flat_map(|object| object.iter()).for_each(|(name, value)| {
            fields.entry(name).or_default().push(value);
        });
        let required: Vec<&&String> =
            fields.iter().filter(|(_, found)| found.len() == objects.len()).map(|(name, _)| name).collect();
        schema.insert("required".to_owned(), json!(required));
        let properties: Map<String, Value> =
            fields.iter().map(|(name, found)| ((*name).clone(), schema_of(found))).collect();
        schema.insert("properties".to_owned(), properties.into());
    }
    schema.into()
}

pub fn whole(name: &str, documents: &[Value]) -> Value {
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": name,
    });
    let found = schema_of(&documents.iter().collect::<Vec<_>>());
    if let (Some(schema), Value::Object(found)) = (schema.as_object_mut(), found) {
        schema.extend(found);
    }
    schema["properties"]["schema"] = json!({ "const": name });
    describe(name, &mut schema);
    schema
}

/// Says of each field of a document what it is.
fn describe(name: &str, schema: &mut Value) {
    let texts: BTreeMap<String, BTreeMap<String, String>> =
        toml::from_str(include_str!("descriptions.toml")).expect("descriptions");
    for (field, property) in schema["properties"].as_object_mut().into_iter().flatten() {
        if field != "schema" {
            let text = texts.get(name).and_then(|texts| texts.get(field));
            let text = text.unwrap_or_else(|| panic!("descriptions.toml says nothing of {field} of {name}"));
            property["description"] = json!(text);
        }
    }
}

/// The same without what is below the first level, for documents that depend on the machine.
fn outline(mut schema: Value) -> Value {
    for (name, property) in schema["properties"].as_object_mut().into_iter().flatten() {
        if let Some(property) = property.as_object_mut().filter(|_| name != "schema") {
            property.retain(|key, _| key == "type" || key == "description");
        }
    }
    schema
}

/// Holds a document that depends on the machine to the outline of its file, which is written anew if asked for.
pub fn hold_outline(name: &str, document: &Value, write: bool) {
    if write {
        let text = serde_json::to_string_pretty(&outline(whole(name, std::slice::from_ref(document))))
            .expect("JSON");
        fs::write(file_of(name), text + "\n").expect("written");
    }
    let text = fs::read_to_string(file_of(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let kept: Value = serde_json::from_str(&text).expect("JSON");
    let validator = jsonschema::validator_for(&outline(kept)).expect("a schema");
    assert!(validator.is_valid(document), "{name}: {:?}", validator.iter_errors(document).next());
}

/// Whether the files are to be written.
pub fn is_writing() -> bool {
    std::env::var_os("MEMWALL_WRITE_SCHEMAS").is_some()
}
