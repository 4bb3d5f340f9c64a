use super::{Matches, find};

#[test]
fn places_are_counted_and_shown_with_their_surroundings() {
    let text = "The Walrus swims.\nA  walrus sleeps. No seal here.";
    let all = "The Walrus swims. A walrus sleeps. No seal here.".to_owned();
    assert_eq!(find(text, " walrus "), Matches { total: 2, shown: vec![all.clone(), all] });
    assert_eq!(find(text, "otter"), Matches { total: 0, shown: vec![] });
    assert_eq!(find(text, "  "), Matches { total: 0, shown: vec![] });
}

#[test]
fn only_the_first_places_are_shown_and_all_are_counted() {
    let text = format!("{}end", "aha! ".repeat(500));
    let places = find(&text, "AHA");
    assert_eq!((places.total, places.shown.len()), (500, 10));
    assert!(places.shown[0].starts_with("aha! aha!") && places.shown[0].ends_with('…'));
    assert!(places.shown[9].chars().count() < 400);
}

/// Characters whose lower case is longer do not shift the matches.
#[test]
fn letters_of_other_scripts_are_found_where_they_are() {
    let text = "İİİİ 🦭 ÄPFEL und Birnen";
    assert_eq!(find(text, "äpfel").shown, ["İİİİ 🦭 ÄPFEL und Birnen"]);
    assert_eq!(find(text, "i").total, 5, "İ is an i with a dot, and there is one in Birnen");
}

#[test]
fn places_do_not_overlap() {
    assert_eq!(find("aaaa", "aa").total, 2);
}

/// A20: the time of a search does not depend on the pattern.
#[test]
fn a_pattern_that_almost_fits_everywhere_is_found_quickly() {
    let text = "a".repeat(2 << 20);
    let begins = std::time::Instant::now();
    assert_eq!(find(&text, &format!("{}b", "a".repeat(999))).total, 0);
    assert_eq!(find(&text, &"a".repeat(1_000)).total, (2 << 20) / 1_000);
    assert!(begins.elapsed() < std::time::Duration::from_secs(30), "{:?}", begins.elapsed());
}
