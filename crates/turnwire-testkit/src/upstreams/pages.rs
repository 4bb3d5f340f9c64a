//! A site whose pages are generated from their names.

use axum::{
    extract::Path,
    http::StatusCode,
    response::{Html, IntoResponse, Redirect, Response},
};

/// Returns a page about its name, with a menu and a script. The page `missing` does not exist.
pub(super) async fn page(Path(name): Path<String>) -> Response {
    if name == "missing" {
        return StatusCode::NOT_FOUND.into_response();
    }
    let paragraph = format!(
        "<p>This page is about {name}, and it says of {name} what there is to say, in a paragraph \
         that is long enough to be taken for one, with a comma here and there.</p>"
    );
    Html(format!(
        "<html><head><title>All about {name}</title></head><body><nav><a href=\"/\">Home</a></nav>\
         <article><h1>All about {name}</h1>{}<p>The secret of {name} is 🦭.</p></article>\
         <script>hide()</script></body></html>",
        paragraph.repeat(4)
    ))
    .into_response()
}

/// Redirects to the page of the same name.
pub(super) async fn moved(Path(name): Path<String>) -> Redirect {
    Redirect::temporary(&format!("/pages/{name}"))
}
