//! Mistakes, each with one message at the user's own words.

#[test]
fn every_mistake_has_one_message_that_says_what_to_do() {
    trybuild::TestCases::new().compile_fail("tests/tasks/ui/*.rs");
}
