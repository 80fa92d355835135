//! As much of JSON Schema (draft 2020-12) as the committed schemas use; a keyword beyond that is
//! itself a finding, so that none is passed over in silence.

use serde_json::{Map, Value};

/// What is wrong with `value` by `schema`, each with its place; empty if nothing is.
pub(crate) fn findings(schema: &Value, value: &Value) -> Vec<String> {
    let mut validator = Validator { root: schema, findings: Vec::new() };
    validator.check(schema, value, "$");
    validator.findings
}

struct Validator<'a> {
    root: &'a Value,
    findings: Vec<String>,
}

impl Validator<'_> {
    fn check(&mut self, schema: &Value, value: &Value, at: &str) {
        let Some(keywords) = schema.as_object() else {
            return self.found(at, "the schema is no object");
        };
        for (keyword, given) in keywords {
            match keyword.as_str() {
                "$defs" | "$id" | "$schema" | "description" | "title" => {}
                "$ref" => self.referred(given, value, at),
                "additionalProperties" => self.others(given, keywords, value, at),
                "anyOf" => self.any_of(given, value, at),
                "enum" if listed(given).contains(value) => {}
                "enum" => self.found(at, &format!("{value} is none of {given}")),
                "items" => self.items(given, value, at),
                "maxItems" | "minItems" => self.length(keyword, given, value, at),
                "minimum" => self.minimum(given, value, at),
                "properties" => self.properties(given, value, at),
                "required" => self.required(given, value, at),
                "type" if is_of_type(given, value) => {}
                "type" => self.found(at, &format!("{value} is not of type {given}")),
                _ => self.found(at, &format!("the schema has the keyword {keyword}")),
            }
        }
    }

    fn found(&mut self, at: &str, what: &str) {
        self.findings.push(format!("{at}: {what}"));
    }

    fn length(&mut self, keyword: &str, given: &Value, value: &Value, at: &str) {
        let count = value.as_array().map(|items| store_core::length_u64(items.len()));
        let (count, given) = (count.unwrap_or(0), given.as_u64().unwrap_or(0));
        let fits = if keyword == "maxItems" { count <= given } else { given <= count };
        if value.is_array() && !fits {
            self.found(at, &format!("{count} items, {keyword} {given}"));
        }
    }

    fn referred(&mut self, to: &Value, value: &Value, at: &str) {
        let pointer = to.as_str().and_then(|to| to.strip_prefix('#'));
        match pointer.and_then(|pointer| self.root.pointer(pointer)) {
            Some(schema) => self.check(schema, value, at),
            None => self.found(at, &format!("the schema has no {to}")),
        }
    }

    fn any_of(&mut self, schemas: &Value, value: &Value, at: &str) {
        let mut closest: Option<Vec<String>> = None;
        for schema in listed(schemas) {
            let mut one = Validator { root: self.root, findings: Vec::new() };
            one.check(schema, value, at);
            if one.findings.is_empty() {
                return;
            }
            // That of the schema which says most is the one that was meant.
            if closest.as_ref().is_none_or(|known| known.len() < one.findings.len()) {
                closest = Some(one.findings);
            }
        }
        self.findings.extend(closest.unwrap_or_else(|| vec![format!("{at}: anyOf is empty")]));
    }

    fn items(&mut self, schema: &Value, value: &Value, at: &str) {
        for (nth, item) in listed(value).iter().enumerate() {
            self.check(schema, item, &format!("{at}[{nth}]"));
        }
    }

    fn minimum(&mut self, least: &Value, value: &Value, at: &str) {
        let is_less = |value: f64| least.as_f64().is_none_or(|least| value < least);
        if value.as_f64().is_some_and(is_less) {
            self.found(at, &format!("{value} is less than {least}"));
        }
    }

    fn properties(&mut self, schemas: &Value, value: &Value, at: &str) {
        for (name, member) in fields(value) {
            if let Some(schema) = schemas.get(name) {
                self.check(schema, member, &format!("{at}.{name}"));
            }
        }
    }

    fn others(&mut self, given: &Value, keywords: &Map<String, Value>, value: &Value, at: &str) {
        let named = keywords.get("properties");
        let is_other = |name: &str| named.is_none_or(|named| named.get(name).is_none());
        for (name, member) in fields(value).filter(|(name, _)| is_other(name)) {
            match given {
                Value::Bool(true) => {}
                Value::Bool(false) => self.found(at, &format!("{name} is not in the schema")),
                schema => self.check(schema, member, &format!("{at}.{name}")),
            }
        }
    }

    fn required(&mut self, names: &Value, value: &Value, at: &str) {
        for name in listed(names).iter().filter_map(Value::as_str) {
            if value.is_object() && value.get(name).is_none() {
                self.found(at, &format!("{name} is missing"));
            }
        }
    }
}

fn listed(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// Whether it is of this type, or of one of these.
fn is_of_type(given: &Value, value: &Value) -> bool {
    let of_one = |name: &Value| match name.as_str() {
        Some("array") => value.is_array(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("null") => value.is_null(),
        Some("number") => value.is_number(),
        Some("object") => value.is_object(),
        Some("string") => value.is_string(),
        _ => false,
    };
    if given.is_array() { listed(given).iter().any(of_one) } else { of_one(given) }
}

mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({
            "description": "",
            "type": "object",
            "properties": {
                "count": {"type": ["integer", "null"], "minimum": 0},
                "kind": {"type": "string", "enum": ["raw", "none"]},
                "words": {"type": "object", "additionalProperties": {"type": "string"}},
                "parts": {"type": "array", "items": {"$ref": "#/$defs/Part"}},
                "one": {"anyOf": [{"$ref": "#/$defs/Part"}, {"type": "null"}]}
            },
            "required": ["count", "kind"],
            "additionalProperties": false,
            "$defs": {"Part": {
                "type": "object",
                "properties": {"share": {"type": "number"}},
                "required": ["share"],
                "additionalProperties": false
            }}
        })
    }

    #[track_caller]
    fn check(value: &Value, expect: &[&str]) {
        assert_eq!(findings(&schema(), value), expect, "{value}");
    }

    #[test]
    fn what_fits_is_not_complained_of() {
        check(&json!({"count": 1, "kind": "raw", "parts": [], "one": null, "words": {}}), &[]);
        check(&json!({"count": null, "kind": "none", "one": {"share": 1}}), &[]);
        check(&json!({"count": 0, "kind": "raw", "parts": [{"share": -0.5}]}), &[]);
    }

    #[test]
    fn each_thing_that_does_not_fit_is_told_with_its_place() {
        check(&json!([]), &["$: [] is not of type \"object\""]);
        check(&json!({"count": 1}), &["$: kind is missing"]);
        check(&json!({"count": 1, "kind": "raw", "new": 1}), &["$: new is not in the schema"]);
        let negative = ["$.count: -1 is less than 0"];
        check(&json!({"count": -1, "kind": "raw"}), &negative);
        let half = ["$.count: 0.5 is not of type [\"integer\",\"null\"]"];
        check(&json!({"count": 0.5, "kind": "raw"}), &half);
        let other = ["$.kind: \"log\" is none of [\"raw\",\"none\"]"];
        check(&json!({"count": 1, "kind": "log"}), &other);
        let word = ["$.words.a: 1 is not of type \"string\""];
        check(&json!({"count": 1, "kind": "raw", "words": {"a": 1}}), &word);
        let parts = json!({"count": 1, "kind": "raw", "parts": [{"share": 1}, {"share": "all"}]});
        check(&parts, &["$.parts[1].share: \"all\" is not of type \"number\""]);
        let one = json!({"count": 1, "kind": "raw", "one": {"part": 1}});
        check(&one, &["$.one: part is not in the schema", "$.one: share is missing"]);
    }

    #[test]
    fn a_schema_that_is_not_understood_passes_nothing() {
        let of = |schema: Value| findings(&schema, &json!(1));
        assert_eq!(of(json!({"maximum": 0})), ["$: the schema has the keyword maximum"]);
        assert_eq!(of(json!({"$ref": "#/$defs/A"})), ["$: the schema has no \"#/$defs/A\""]);
        assert_eq!(of(json!(true)), ["$: the schema is no object"]);
        assert_eq!(of(json!({"anyOf": []})), ["$: anyOf is empty"]);
        assert_eq!(of(json!({"type": "count"})), ["$: 1 is not of type \"count\""]);
    }
}
