//! Reads the part of YAML that the profiles use: block maps, lists of block maps, double-quoted strings, numbers.
//! Anything else is an error, so that a profile cannot mean more to tunnel-client than it does here.

use serde_json::{Map, Value};

/// What tunnel-client's releases from summer 2026 on know. One unknown key and it refuses the file.
const KNOWN: [&str; 15] = [
    "config_version",
    "control_plane.tunnel_id",
    "control_plane.api_key",
    "control_plane.max_inflight_requests",
    "health.listen_addr",
    "health.url_file",
    "log.level",
    "log.format",
    "mcp.server_urls.channel",
    "mcp.server_urls.url",
    "mcp.server_urls.unix_socket",
    "mcp.commands.channel",
    "mcp.commands.command",
    "mcp.connection_max_ttl",
    "mcp.max_concurrent_requests",
];

struct Line<'a> {
    number: usize,
    indent: usize,
    text: &'a str,
}

/// The profile as JSON.
///
/// # Errors
/// With the line that is not of the agreed form, or the key that is not known.
pub fn read(text: &str) -> Result<Value, String> {
    let lines: Vec<Line<'_>> = text
        .lines()
        .enumerate()
        .map(|(at, line)| Line {
            number: at + 1,
            indent: line.len() - line.trim_start().len(),
            text: line.trim(),
        })
        .filter(|line| !line.text.is_empty() && !line.text.starts_with('#'))
        .collect();
    let mut at = 0;
    let read = map(&lines, &mut at, 0)?;
    match lines.get(at) {
        Some(line) => Err(format!("line {}: not expected here", line.number)),
        None => known(&read, "").map(|()| read),
    }
}

fn map(lines: &[Line<'_>], at: &mut usize, indent: usize) -> Result<Value, String> {
    let mut read = Map::new();
    while let Some(line) = lines.get(*at).filter(|line| line.indent == indent && !line.text.starts_with("- "))
    {
        *at += 1;
        entry(lines, at, line.number, indent, line.text, &mut read)?;
    }
    Ok(Value::Object(read))
}

fn entry(
    lines: &[Line<'_>],
    at: &mut usize,
    number: usize,
    indent: usize,
    text: &str,
    into: &mut Map<String, Value>,
) -> Result<(), String> {
    let (key, value) = text.split_once(':').ok_or_else(|| format!("line {number}: no `key: value`"))?;
    let value = match value.trim() {
        "" => {
            let inner = lines.get(*at).map_or(0, |line| line.indent);
            let is_list = lines.get(*at).is_some_and(|line| line.text.starts_with("- "));
            match inner > indent {
                true if is_list => list(lines, at, inner)?,
                true => map(lines, at, inner)?,
                false => return Err(format!("line {number}: nothing below `{key}`")),
            }
        }
        // Double-quoted strings are written as JSON writes them, and numbers look the same.
        scalar => serde_json::from_str(scalar).map_err(|error| format!("line {number}: {error}"))?,
    };
    match into.insert(key.to_owned(), value) {
        Some(_) => Err(format!("line {number}: `{key}` twice")),
        None => Ok(()),
    }
}

fn list(lines: &[Line<'_>], at: &mut usize, indent: usize) -> Result<Value, String> {
    let mut items = Vec::new();
    while let Some(line) = lines.get(*at).filter(|line| line.indent == indent) {
        let first =
            line.text.strip_prefix("- ").ok_or_else(|| format!("line {}: no list item", line.number))?;
        *at += 1;
        let mut item = Map::new();
        entry(lines, at, line.number, indent + 2, first, &mut item)?;
        let Value::Object(rest) = map(lines, at, indent + 2)? else { continue };
        item.extend(rest);
        items.push(Value::Object(item));
    }
    Ok(Value::Array(items))
}

fn known(value: &Value, path: &str) -> Result<(), String> {
    match value {
        Value::Object(map) if path != "mcp.extra_headers" => map.iter().try_for_each(|(key, value)| {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            known(value, &path)
        }),
        Value::Array(items) => items.iter().try_for_each(|item| known(item, path)),
        _ if path == "mcp.extra_headers" || KNOWN.contains(&path) => Ok(()),
        _ => Err(format!("`{path}` is not a key that every tunnel-client knows")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn maps_lists_and_scalars_are_read_and_anything_else_is_refused() {
        let text = "# c\nconfig_version: 1\nmcp:\n  server_urls:\n    - channel: \"main\"\n      url: \"u\"\n  connection_max_ttl: \"1m\"\n";
        let wanted = json!({"config_version": 1, "mcp": {
            "server_urls": [{"channel": "main", "url": "u"}], "connection_max_ttl": "1m"}});
        assert_eq!(read(text), Ok(wanted));
        for bad in
            ["a", "config_version: yes", "config_version: 1\nconfig_version: 1", "mcp:\n", "harpoon: 1"]
        {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
