use proptest::prelude::*;
use serde_json::json;

use super::*;

const NOTEBOOKS: [(&str, &[u8]); 11] = [
    ("jupyter_classic_4_4", include_bytes!("../../../tests/data/notebooks/jupyter_classic_4_4.ipynb")),
    ("jupyterlab_4_5", include_bytes!("../../../tests/data/notebooks/jupyterlab_4_5.ipynb")),
    ("colab", include_bytes!("../../../tests/data/notebooks/colab.ipynb")),
    ("vscode_crlf", include_bytes!("../../../tests/data/notebooks/vscode_crlf.ipynb")),
    ("python_one_line_ascii", include_bytes!("../../../tests/data/notebooks/python_one_line_ascii.ipynb")),
    ("javascript_minified", include_bytes!("../../../tests/data/notebooks/javascript_minified.ipynb")),
    ("tabs_upper_escapes", include_bytes!("../../../tests/data/notebooks/tabs_upper_escapes.ipynb")),
    ("odd_spacing", include_bytes!("../../../tests/data/notebooks/odd_spacing.ipynb")),
    ("empty_4_5", include_bytes!("../../../tests/data/notebooks/empty_4_5.ipynb")),
    ("empty_one_line", include_bytes!("../../../tests/data/notebooks/empty_one_line.ipynb")),
    ("partly_without_ids_4_5", include_bytes!("../../../tests/data/notebooks/partly_without_ids_4_5.ipynb")),
];

fn notebook(name: &str) -> &'static [u8] {
    NOTEBOOKS.iter().find(|(known, _)| *known == name).unwrap().1
}

fn input(value: &Value) -> NotebookEditInput {
    let mut value = value.clone();
    value["notebook_path"] = "/n.ipynb".into();
    let checked = check(&value).unwrap_or_else(|fault| panic!("{fault}: {value}"));
    assert_eq!(
        check(&serde_json::to_value(&checked).unwrap()).unwrap(),
        checked,
        "the input comes back unchanged"
    );
    checked
}

fn edited(before: &[u8], value: &Value) -> (Vec<u8>, NotebookFacts) {
    let planned = plan(&input(value), Some(before)).unwrap_or_else(|fault| panic!("{fault}: {value}"));
    let Facts::Notebook(facts) = planned.facts else { panic!("other facts") };
    match planned.bytes {
        NewBytes::Replaced(after) => (after, facts),
        NewBytes::Unchanged => (before.to_vec(), facts),
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes.strip_prefix(BOM).unwrap_or(bytes)).unwrap()
}

/// What the removed and the added bytes are where two files differ in one place.
fn difference<'a>(before: &'a [u8], after: &'a [u8]) -> (&'a str, &'a str) {
    let start = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    let rest = before.len().min(after.len()) - start;
    let end = before.iter().rev().zip(after.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let part = |bytes: &'a [u8]| std::str::from_utf8(&bytes[start..bytes.len() - end]).unwrap();
    (part(before), part(after))
}

fn replace(id: &str, source: &str) -> Value {
    json!({"edit_mode": "replace", "cell_id": id, "new_source": source})
}

#[test]
fn a_replaced_source_is_written_as_the_file_is() {
    for (name, id, source, gone, come) in [
        ("jupyter_classic_4_4", "cell-0", "# Überblick\n\nNeu «é»", "Daten « laden » — 日本語 😀", "Neu «é»"),
        ("jupyter_classic_4_4", "cell-3", "a\nb", "", "\n    \"a\\n\",\n    \"b\"\n   "),
        ("colab", "cell-2", "x\ny", "!pip install -q x", "x\\n\",\n        \"y"),
        ("vscode_crlf", "md", "just one line\nand é", "", "\\n\",\r\n                \"and é"),
        ("python_one_line_ascii", "cell-3", "é\n𝄞", "", "\"\\u00e9\\n\", \"\\ud834\\udd1e\""),
        ("javascript_minified", "plot_cell", "é\n\"\\", "", "é\\n\\\"\\\\"),
        ("tabs_upper_escapes", "cell-3", "é", "", "\n\t\t\t\t\"\\u00E9\"\n\t\t\t"),
        ("odd_spacing", "cell-0", "a = 1\nb = 2\nc", "", "\\n\" , \"c"),
        ("odd_spacing", "cell-1", "x\ny", "\\u00e9 and \\/ slash", "x\\n\", \"y"),
    ] {
        let before = notebook(name);
        let (after, facts) = edited(before, &replace(id, source));
        assert_eq!(difference(before, &after), (gone, come), "{name}");
        assert_eq!((facts.cell_id.as_str(), facts.outputs_dropped, facts.note), (id, 0, None), "{name}");
    }
}

#[test]
fn outputs_of_a_replaced_code_cell_are_dropped_and_counted_and_others_stay() {
    let before = notebook("jupyter_classic_4_4");
    let (after, facts) = edited(before, &replace("cell-2", "df.tail()"));
    assert_eq!(facts.outputs_dropped, 3);
    let (old, new): (Value, Value) =
        (serde_json::from_str(text(before)).unwrap(), serde_json::from_str(text(&after)).unwrap());
    assert_eq!(new["cells"][2]["outputs"], json!([]));
    assert_eq!(new["cells"][2]["execution_count"], json!(null));
    assert_eq!(new["cells"][2]["metadata"], old["cells"][2]["metadata"]);
    for untouched in [0, 1, 3] {
        assert_eq!(new["cells"][untouched], old["cells"][untouched]);
    }
    // The text of a markdown cell has no outputs to drop.
    assert_eq!(edited(before, &replace("cell-0", "x")).1.outputs_dropped, 0);
}

#[test]
fn a_source_that_stays_the_same_writes_nothing_and_keeps_outputs() {
    let source = "df = pd.read_csv(\"a\\tb.csv\")\ndf.head()";
    for name in ["jupyter_classic_4_4", "python_one_line_ascii", "tabs_upper_escapes"] {
        let planned = plan(&input(&replace("cell-2", source)), Some(notebook(name))).unwrap();
        assert_eq!(planned.bytes, NewBytes::Unchanged, "{name}");
        let Facts::Notebook(facts) = planned.facts else { panic!() };
        assert_eq!(facts.outputs_dropped, 0);
    }
}

#[test]
fn a_cell_can_change_its_type() {
    let before = notebook("jupyterlab_4_5");
    let turn = |id: &str, kind: &str, source: &str| {
        let value = json!({"edit_mode": "replace", "cell_id": id, "cell_type": kind, "new_source": source});
        let (after, facts) = edited(before, &value);
        let index = facts.cells.iter().position(|cell| cell == id).unwrap();
        (serde_json::from_str::<Value>(text(&after)).unwrap()["cells"][index].clone(), facts)
    };
    let (cell, facts) = turn("9900aabb", "markdown", "text");
    assert_eq!(cell, json!({"cell_type": "markdown", "id": "9900aabb", "metadata": {}, "source": ["text"]}));
    assert_eq!(facts.outputs_dropped, 3);
    let (cell, facts) = turn("a1b2c3d4", "code", "x = 1");
    let wanted = json!({"cell_type": "code", "execution_count": null, "id": "a1b2c3d4", "metadata": {},
        "outputs": [], "source": ["x = 1"]});
    assert_eq!(cell, wanted);
    assert_eq!(facts.note.as_deref(), Some("Its attachments were dropped: a code cell has none."));
    let (cell, _) = turn("a1b2c3d4", "raw", "x");
    assert!(cell["attachments"].is_object());
}

#[test]
fn an_inserted_cell_is_written_like_its_neighbours() {
    let insert = |name: &str, value: Value| {
        let (after, facts) = edited(notebook(name), &value);
        let (gone, _) = difference(notebook(name), &after);
        assert_eq!(gone, "", "{name}: nothing goes");
        (text(&after).to_owned(), facts)
    };
    let code = |position: &str| json!({"edit_mode": "insert", "position": position, "cell_type": "code", "new_source": "y\nz"});
    let (come, facts) = insert("jupyter_classic_4_4", code("end"));
    assert_eq!(facts.cells, ["cell-0", "cell-1", "cell-2", "cell-3", "cell-4"]);
    assert_eq!(facts.cell_id, "cell-4");
    let wanted = "  {\n   \"cell_type\": \"code\",\n   \"execution_count\": null,\n   \"metadata\": {},\n   \"outputs\": [],\n   \"source\": [\n    \"y\\n\",\n    \"z\"\n   ]\n  }";
    assert!(come.contains(wanted.trim_start()), "{come}");
    let (come, facts) = insert("javascript_minified", code("start"));
    // In the order of that file, whose ids come last.
    let wanted = format!(
        "[{{\"cell_type\":\"code\",\"execution_count\":null,\"metadata\":{{}},\"outputs\":[],\"source\":\"y\\nz\",\"id\":\"{}\"}},{{",
        facts.cell_id
    );
    assert!(come.contains(&wanted), "{come}");
    let (come, _) = insert(
        "vscode_crlf",
        json!({"edit_mode": "insert", "cell_id": "raw-1", "cell_type": "markdown", "new_source": ""}),
    );
    assert!(come.contains("\"source\": []\r\n        }"), "{come:?}");
    let (come, _) = insert("python_one_line_ascii", code("start"));
    assert!(come.contains("{\"cell_type\": \"code\", \"execution_count\": null, \"metadata\": {}, \"outputs\": [], \"source\": [\"y\\n\", \"z\"]}, "), "{come}");
}

#[test]
fn the_first_cell_of_an_empty_notebook_is_written_as_jupyter_would() {
    let value = json!({"edit_mode": "insert", "cell_type": "code", "new_source": "a\nb"});
    let (after, facts) = edited(notebook("empty_4_5"), &value);
    let wanted = format!(
        "\"cells\": [\n  {{\n   \"cell_type\": \"code\",\n   \"execution_count\": null,\n   \"id\": \"{}\",\n   \"metadata\": {{}},\n   \"outputs\": [],\n   \"source\": [\n    \"a\\n\",\n    \"b\"\n   ]\n  }}\n ],",
        facts.cell_id
    );
    assert!(text(&after).contains(&wanted), "{}", text(&after));
    let (after, facts) = edited(notebook("empty_one_line"), &value);
    let wanted = format!(
        "{{\"cells\": [{{\"cell_type\": \"code\", \"execution_count\": null, \"id\": \"{}\", \"metadata\": {{}}, \"outputs\": [], \"source\": [\"a\\n\", \"b\"]}}], \"metadata\"",
        facts.cell_id
    );
    assert!(text(&after).starts_with(&wanted), "{}", text(&after));
}

#[test]
fn an_inserted_cell_that_is_deleted_again_leaves_the_file_as_it_was() {
    for (name, before) in NOTEBOOKS {
        let count = edited_names(before).len();
        for position in 0..=count {
            let value = match edited_names(before).get(position) {
                Some(id) => {
                    json!({"edit_mode": "insert", "position": "before", "cell_id": id, "cell_type": "raw", "new_source": "é\n"})
                }
                None => {
                    json!({"edit_mode": "insert", "position": "end", "cell_type": "raw", "new_source": "é\n"})
                }
            };
            let (with, facts) = edited(before, &value);
            assert_eq!(edited_names(&with), facts.cells, "{name}");
            assert_eq!(facts.cells.len(), count + 1);
            let (after, _) = edited(&with, &json!({"edit_mode": "delete", "cell_id": facts.cells[position]}));
            assert!(after == before, "{name} at {position}: {:?}", difference(before, &after));
        }
    }
}

fn edited_names(bytes: &[u8]) -> Vec<String> {
    Document::parse(text(bytes)).unwrap().names().collect()
}

#[test]
fn every_cell_can_be_deleted_and_the_last_one_leaves_an_empty_list() {
    for (name, before) in NOTEBOOKS {
        let mut bytes = before.to_vec();
        while let Some(id) = edited_names(&bytes).pop() {
            let count = edited_names(&bytes).len();
            let (after, facts) = edited(&bytes, &json!({"edit_mode": "delete", "cell_id": id}));
            assert_eq!((facts.cell_id, facts.cells.len()), (id, count - 1), "{name}");
            assert_eq!(edited_names(&after), facts.cells);
            bytes = after;
        }
        assert!(text(&bytes).contains("[]"), "{name}");
    }
}

#[test]
fn cells_without_ids_get_one_only_where_the_format_has_them() {
    let (after, facts) = edited(notebook("partly_without_ids_4_5"), &replace("cell-1", "x"));
    assert_eq!(edited_names(&after)[1], facts.cell_id);
    assert!(facts.cell_id != "cell-1" && facts.note.unwrap().contains("it was cell-1"));
    assert_eq!(edited_names(&after)[2], "cell-2", "others stay without");
    let wanted = format!("\"id\": \"{}\",\n   \"metadata\"", facts.cell_id);
    assert!(text(&after).contains(&wanted), "{}", text(&after));
    let (after, _) = edited(notebook("jupyter_classic_4_4"), &replace("cell-1", "x"));
    assert!(!text(&after).contains("\"id\""));
    // The same edit gives the same id.
    assert_eq!(
        edited(notebook("empty_4_5"), &json!({"edit_mode": "insert", "cell_type": "raw", "new_source": ""})),
        edited(notebook("empty_4_5"), &json!({"edit_mode": "insert", "cell_type": "raw", "new_source": ""})),
    );
}

#[test]
fn a_cell_that_is_not_there_is_told_together_with_those_that_are() {
    for (name, id) in [
        ("jupyterlab_4_5", "nothing"),
        ("jupyterlab_4_5", "cell-0"),
        ("jupyter_classic_4_4", "cell-4"),
        ("jupyter_classic_4_4", "cell-01"),
        ("jupyter_classic_4_4", "cell--1"),
    ] {
        let fault = plan(&input(&replace(id, "x")), Some(notebook(name))).unwrap_err();
        assert_eq!(fault.code, ActionCode::CellNotFound, "{name} {id}");
        assert!(fault.hint.starts_with("It has 4 cells: "), "{}", fault.hint);
    }
}

#[test]
fn what_is_no_notebook_of_format_4_is_refused_with_its_reason() {
    for (json, reason) in [
        ("", "not JSON"),
        ("{\"cells\": [", "not JSON"),
        ("[]", "no JSON object"),
        ("{}", "no nbformat"),
        (r#"{"nbformat": 3, "nbformat_minor": 0, "worksheets": []}"#, "nbformat 3"),
        (r#"{"nbformat": 4, "nbformat_minor": 0}"#, "no cells"),
        (r#"{"nbformat": 4, "cells": []}"#, "no nbformat_minor"),
        (r#"{"nbformat": 4, "nbformat_minor": "0", "cells": []}"#, "nbformat_minor is not"),
        (r#"{"nbformat": 4, "nbformat_minor": 0, "cells": {}}"#, "cells is not"),
        (r#"{"nbformat": 4, "nbformat_minor": 0, "cells": [1]}"#, "cell 0: it is no object"),
        (r#"{"nbformat": 4, "nbformat_minor": 0, "cells": [{}]}"#, "cell 0: it has no cell_type"),
        (
            r#"{"nbformat": 4, "nbformat_minor": 0, "cells": [{"cell_type": "raw", "source": 1}]}"#,
            "neither a string",
        ),
        (
            r#"{"nbformat": 4, "nbformat_minor": 5, "cells": [{"cell_type": "raw", "source": "", "id": 1}]}"#,
            "id is no string",
        ),
        (r#"{"nbformat": 4, "nbformat_minor": 0, "cells": [], "cells": []}"#, "cells is there twice"),
        (
            r#"{"nbformat": 4, "nbformat_minor": 5, "cells": [{"cell_type": "raw", "source": "", "id": "a"},
            {"cell_type": "raw", "source": "", "id": "a"}]}"#,
            "two cells have the id a",
        ),
        (
            r#"{"nbformat": 4, "nbformat_minor": 5, "cells": [{"cell_type": "raw", "source": "", "source": ""}]}"#,
            "source is there twice",
        ),
        (r#"{"nbformat": 4, "nbformat_minor": 0, "cells": [], "metadata": NaN}"#, "not JSON"),
    ] {
        let fault = plan(&input(&replace("cell-0", "x")), Some(json.as_bytes())).unwrap_err();
        assert_eq!(fault.code, ActionCode::NotebookInvalid, "{json}");
        assert!(fault.message.contains(reason), "{json}: {fault}");
    }
    let code = |before| plan(&input(&replace("cell-0", "x")), before).unwrap_err().code;
    assert_eq!(code(Some(b"{\xff}")), ActionCode::NotUtf8);
    assert_eq!(code(None), ActionCode::NotFound);
}

#[test]
fn fields_that_do_not_go_together_are_no_input() {
    let path = "/n.ipynb";
    for (value, field) in [
        (json!({"edit_mode": "replace", "new_source": ""}), "cell_id"),
        (json!({"edit_mode": "replace", "cell_id": "a"}), "new_source"),
        (json!({"edit_mode": "delete"}), "cell_id"),
        (json!({"edit_mode": "delete", "cell_id": "a", "new_source": ""}), "new_source"),
        (json!({"edit_mode": "delete", "cell_id": "a", "cell_type": "code"}), "cell_type"),
        (json!({"edit_mode": "insert", "new_source": ""}), "cell_type"),
        (json!({"edit_mode": "insert", "cell_type": "code"}), "new_source"),
        (
            json!({"edit_mode": "insert", "cell_type": "code", "new_source": "", "position": "before"}),
            "cell_id",
        ),
        (
            json!({"edit_mode": "insert", "cell_type": "code", "new_source": "", "position": "end", "cell_id": "a"}),
            "cell_id",
        ),
        (json!({"edit_mode": "replace", "cell_id": "a", "new_source": "", "position": "end"}), "position"),
        (json!({"edit_mode": "move", "cell_id": "a"}), "edit_mode"),
        (json!({"edit_mode": "insert", "cell_type": "heading", "new_source": ""}), "cell_type"),
    ] {
        let mut value = value;
        value["notebook_path"] = path.into();
        assert_eq!(check(&value).unwrap_err().field.as_deref(), Some(field), "{value}");
    }
}

/// A notebook in a style of its own.
fn written() -> impl Strategy<Value = (Vec<u8>, usize)> {
    let source = "[ab\"\\\\é𝄞\n\t]{0,12}";
    let cell = (0..3_usize, source, any::<bool>(), any::<bool>(), 0..3_usize);
    let cells = proptest::collection::vec(cell, 1..5);
    (cells, 0..6_usize, any::<bool>(), any::<bool>()).prop_map(|(cells, style, ids, crlf)| {
        let cells: Vec<Value> = cells.iter().enumerate().map(|(index, (kind, source, lines, first, outputs))| {
            let kind = ["code", "markdown", "raw"][*kind];
            let source = if *lines { json!(source.split_inclusive('\n').collect::<Vec<_>>()) } else { json!(source) };
            let mut cell = if *first { json!({"source": source, "cell_type": kind}) } else { json!({"cell_type": kind, "source": source}) };
            cell["metadata"] = json!({"n": index, "é": 1.5});
            if kind == "code" {
                cell["execution_count"] = json!(index);
                cell["outputs"] = json!((0..*outputs).map(|n| json!({"text": ["é", n]})).collect::<Vec<_>>());
            }
            if ids {
                cell["id"] = json!(format!("id-{index}"));
            }
            cell
        }).collect();
        let count = cells.len();
        let whole = json!({"metadata": {"source": ["x"]}, "cells": cells, "nbformat": 4, "nbformat_minor": if ids { 5 } else { 3 }});
        let mut text = styled(&whole, style);
        if crlf {
            text = text.replace('\n', "\r\n");
        }
        (text.into_bytes(), count)
    })
}

fn styled(value: &Value, style: usize) -> String {
    let indent: &[u8] = match style {
        0 => return value.to_string(),
        1 => b" ",
        2 => b"  ",
        3 => b"\t",
        4 => b"    ",
        _ => b"",
    };
    let mut out = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(indent);
    serde::Serialize::serialize(value, &mut serde_json::Serializer::with_formatter(&mut out, formatter))
        .unwrap();
    String::from_utf8(out).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(1_000)))]
    #[test]
    fn an_edit_does_to_the_bytes_what_it_does_to_the_value((before, count) in written(), at in 0..8_usize, mode in 0..3_usize, new in "[ab\"é𝄞\n\u{1}]{0,12}") {
        let names = edited_names(&before);
        let at = at % count;
        let mut wanted: Value = serde_json::from_slice(&before).unwrap();
        let cells = wanted["cells"].as_array_mut().unwrap();
        let (after, facts) = match mode {
            0 => {
                let had: Vec<String> = serde_json::from_value(cells[at]["source"].clone()).unwrap_or_else(|_| vec![cells[at]["source"].as_str().unwrap().to_owned()]);
                if had.concat() != new {
                    let is_list = cells[at]["source"].is_array();
                    cells[at]["source"] = if is_list { json!(new.split_inclusive('\n').collect::<Vec<_>>()) } else { json!(new) };
                    if cells[at]["cell_type"] == "code" {
                        cells[at]["outputs"] = json!([]);
                        cells[at]["execution_count"] = json!(null);
                    }
                }
                edited(&before, &replace(&names[at], &new))
            }
            1 => {
                cells.remove(at);
                edited(&before, &json!({"edit_mode": "delete", "cell_id": names[at]}))
            }
            _ => edited(&before, &json!({"edit_mode": "insert", "position": "after", "cell_id": names[at], "cell_type": "code", "new_source": new})),
        };
        let mut got: Value = serde_json::from_slice(&after).unwrap();
        if mode == 2 {
            let new_cell = got["cells"].as_array_mut().unwrap().remove(at + 1);
            prop_assert_eq!(new_cell["id"].as_str().unwrap_or(&facts.cell_id), &facts.cell_id);
            let lines: Vec<String> = serde_json::from_value(new_cell["source"].clone()).unwrap_or_else(|_| vec![new_cell["source"].as_str().unwrap().to_owned()]);
            prop_assert_eq!(lines.concat(), new);
        }
        prop_assert_eq!(&got, &wanted);
        // Key order too.
        prop_assert_eq!(got.to_string(), wanted.to_string());
        let had_line_ends = before.contains(&b'\n');
        prop_assert!(had_line_ends || !after.contains(&b'\n'));
    }

    #[test]
    fn any_text_is_edited_or_refused(text in "[\\[\\]{}\":,a1 \n]{0,60}") {
        let _ = plan(&input(&replace("cell-0", "x")), Some(text.as_bytes()));
    }

    #[test]
    fn a_notebook_with_a_byte_changed_is_edited_or_refused(which in 0..NOTEBOOKS.len(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = NOTEBOOKS[which].1.to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        for value in [replace("cell-0", "x"), json!({"edit_mode": "insert", "cell_type": "code", "new_source": "y"})] {
            let planned = plan(&input(&value), Some(&bytes)).map(|planned| planned.bytes);
            if let Ok(NewBytes::Replaced(after)) = planned {
                prop_assert!(Document::parse(text(&after)).is_ok());
            }
        }
    }
}
