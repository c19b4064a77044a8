use super::*;

const DOCUMENT: &str = "# Title\n\nProse | with | bars\n<!-- figures: machine -->\nold\n<!-- end of figures -->\n\
    More.  \n<!-- figures: turns -->\n| old |\n\n*then*\n<!-- end of figures -->\nLast words, no newline";

fn turns(place: Place) -> Option<String> {
    (place == Place::Turns).then(|| "| new |\n".to_owned())
}

#[test]
fn the_tables_are_new_and_the_prose_is_what_it_was() {
    let expected =
        DOCUMENT.replace("old\n<!--", "2 processors\n<!--").replace("| old |\n\n*then*", "| new |");
    let once = rewrite(DOCUMENT, "2 processors", turns).unwrap();
    assert_eq!(once, expected);
    assert_eq!(rewrite(&once, "2 processors", turns).unwrap(), once, "again, nothing changes");
}

#[test]
fn a_table_that_was_not_measured_stays() {
    let text = rewrite(DOCUMENT, "old", |_| None).unwrap();
    assert_eq!(text, DOCUMENT);
}

#[test]
fn markers_that_mean_nothing_are_refused() {
    let refused = |document: &str| rewrite(document, "", turns).unwrap_err();
    let unknown = refused(&DOCUMENT.replace("figures: turns", "figures: turnips"));
    assert_eq!(unknown, Fault::Unknown { line: 8, name: "turnips".to_owned() });
    let open_name = refused("<!-- figures: turns\n<!-- end of figures -->\n<!-- figures: turns -->\n");
    assert_eq!(open_name, Fault::Twice { line: 3, name: "turns".to_owned() });
}

#[test]
fn a_marker_alone_is_refused_from_either_side() {
    let end = format!("{END}\n");
    assert_eq!(rewrite(&end, "", turns), Err(Fault::Unpaired { line: 1 }));
    let no_end = "a\n<!-- figures: turns -->\nb\n";
    assert_eq!(rewrite(no_end, "", turns), Err(Fault::Unpaired { line: 2 }));
    let nested = "<!-- figures: turns -->\n<!-- figures: calls -->\n<!-- end of figures -->\n";
    assert_eq!(rewrite(nested, "", turns), Err(Fault::Unpaired { line: 2 }));
}

#[test]
fn figures_without_a_place_are_refused() {
    let all = |_| Some(String::new());
    let missing = rewrite(DOCUMENT, "", all).unwrap_err();
    assert_eq!(missing, Fault::NoPlace { name: "first-turn".to_owned() });
}

#[test]
fn every_place_has_a_name_that_is_its_own() {
    let names: BTreeSet<&str> = Place::ALL.iter().map(|place| place.as_str()).collect();
    assert_eq!(names.len(), Place::ALL.len());
    assert!(Place::ALL.into_iter().all(|place| Place::parse(place.as_str()) == Some(place)));
}

#[test]
fn the_document_has_a_place_for_every_table() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let document = std::fs::read_to_string(root.join("docs/performance.md")).unwrap();
    let all = |place: Place| Some(format!("| {} |\n", place.as_str()));
    let text = rewrite(&document, "a machine", all).unwrap();
    assert!(Place::ALL.into_iter().all(|place| text.contains(&format!("| {} |", place.as_str()))));
    assert!(text.contains("\na machine\n"));
}
