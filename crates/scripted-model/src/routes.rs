//! The routes: the model endpoints in three protocols, and the control routes with which another
//! process sets the script and the faults and reads the record.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Path, Request, State as Shared};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::body::Outgoing;
use super::line::Switch;
use super::plan::{self, Act, Message, Plan};
use super::render;
use super::script::Script;
use super::see;
use super::state::{InFlight, State};
use super::step::Step;
use super::types::{Outcome, Protocol, Seen};

type App = Shared<Arc<State>>;
type Client = ConnectInfo<Switch>;

pub(super) fn router(state: Arc<State>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/embeddings", post(embeddings))
        .route("/v1/messages", post(messages))
        // The router cannot split a segment, and Gemini's ends in a verb.
        .route("/v1beta/models/{*call}", post(generate))
        .route("/v1/models", get(models))
        .route("/_requests", get(requests).delete(clear))
        .route("/_script", post(set_script))
        .route("/_faults", post(add_faults).delete(clear_faults))
        .route("/_stats", get(stats))
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
        .layer(DefaultBodyLimit::disable())
        .with_state(state)
}

async fn chat(app: App, client: Client, headers: HeaderMap, body: Bytes) -> Response {
    serve(app, client, &headers, &body, Protocol::OpenAi, None).await
}

async fn embeddings(app: App, client: Client, headers: HeaderMap, body: Bytes) -> Response {
    serve(app, client, &headers, &body, Protocol::Embeddings, None).await
}

async fn messages(app: App, client: Client, headers: HeaderMap, body: Bytes) -> Response {
    serve(app, client, &headers, &body, Protocol::Anthropic, None).await
}

async fn generate(
    app: App,
    client: Client,
    Path(call): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let whole = call.strip_suffix(":generateContent");
    let streamed = call.strip_suffix(":streamGenerateContent");
    match whole.or(streamed) {
        Some(model) => {
            let path = Some((model.to_owned(), streamed.is_some()));
            serve(app, client, &headers, &body, Protocol::Gemini, path).await
        }
        None => no_such_path(&format!("POST /v1beta/models/{call}")),
    }
}

async fn serve(
    Shared(state): App,
    ConnectInfo(switch): Client,
    headers: &HeaderMap,
    body: &[u8],
    protocol: Protocol,
    path: Option<(String, bool)>,
) -> Response {
    let arrived = Instant::now();
    let Some(body) = serde_json::from_slice::<Value>(body)
        .ok()
        .filter(Value::is_object)
    else {
        state.count_unreadable();
        let error = render::error(
            protocol,
            400,
            "The body of the request is not a JSON object.",
        );

        return (StatusCode::BAD_REQUEST, Json(error)).into_response();
    };

    let script = state.script();
    let (seen, guard) = admit(&state, &script, protocol, path, headers, body, arrived);
    let fault = plan::rejection(&script, &seen).or_else(|| state.take_fault(&seen));
    let plan = plan::plan(&script, &seen, fault);

    // The request is no longer needed, so long responses do not keep it in memory.
    drop(seen);
    carry_out(&state, switch, guard, plan).await
}

fn admit(
    state: &Arc<State>,
    script: &Script,
    protocol: Protocol,
    path: Option<(String, bool)>,
    headers: &HeaderMap,
    body: Value,
    arrived: Instant,
) -> (Arc<Seen>, InFlight) {
    let (path_model, streamed) =
        path.map_or((None, false), |(model, streamed)| (Some(model), streamed));
    let view = see::view(protocol, &body, path_model);
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = headers
        .iter()
        .map(|(name, value)| (name.to_string(), text(value)))
        .collect();

    let since_start = arrived.duration_since(state.started).as_millis();
    state.admit(script.record_limit, |number| Seen {
        number,
        protocol,
        model: view.model,
        stage: view.stage,
        mode: view.mode,
        system: view.system,
        user: view.user,
        schema: view.schema,
        temperature: view.temperature,
        max_tokens: view.max_tokens,
        streamed: streamed || body["stream"] == true,
        headers,
        body,
        arrived,
        at_ms: u64::try_from(since_start).unwrap_or(u64::MAX),
        outcome: Outcome::Pending,
    })
}

async fn carry_out(state: &State, switch: Switch, guard: InFlight, plan: Plan) -> Response {
    if let Some(usage) = plan.usage {
        state.count_usage(usage);
    }

    if !plan.wait.is_zero() {
        tokio::select! {
            () = tokio::time::sleep(plan.wait) => {}
            () = state.stop.cancelled() => return hang_up(&switch, guard),
        }
    }

    match plan.act {
        Act::Send(message) => send(state, switch, guard, message),
        Act::Close => hang_up(&switch, guard),
        Act::Stall => {
            state.stop.cancelled().await;
            hang_up(&switch, guard)
        }
    }
}

/// The response is never written; it only causes a write, which ends the connection.
fn hang_up(switch: &Switch, mut guard: InFlight) -> Response {
    guard.settle(Outcome::Broken);
    switch.close();
    StatusCode::INTERNAL_SERVER_ERROR.into_response()
}

fn send(state: &State, switch: Switch, guard: InFlight, message: Message) -> Response {
    let status = StatusCode::from_u16(message.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let rest = Bytes::from(message.body);
    let length = rest.len();
    let stop = state.stop.clone();
    let outgoing = Outgoing {
        rest,
        status: status.as_u16(),
        ending: message.ending,
        pause: message.pause,
        begun: false,
        guard,
        switch,
        stop,
    };

    let mut response = Response::new(outgoing.into_body());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(message.content_type),
    );

    if !message.chunked {
        headers.insert(header::CONTENT_LENGTH, length.into());
    }

    for (name, value) in message.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.insert(name, value);
        }
    }

    response
}

async fn models(Shared(state): App) -> Json<Value> {
    let script = state.script();
    // The fields of both OpenAI and Anthropic, which share the path.
    let entry = |id: &String| {
        let mut entry = json!({"id": id, "object": "model", "created": 0, "owned_by": "scripted"});
        entry["type"] = "model".into();
        entry["display_name"] = id.as_str().into();
        entry
    };

    let data: Vec<Value> = script.models.iter().map(entry).collect();
    Json(json!({"object": "list", "data": data, "has_more": false}))
}

async fn requests(Shared(state): App) -> Json<Vec<Seen>> {
    Json(state.requests())
}

async fn clear(Shared(state): App) -> StatusCode {
    state.clear();
    StatusCode::NO_CONTENT
}

async fn set_script(Shared(state): App, body: Bytes) -> Response {
    accept::<Script>(&body, |script| {
        state.edit_script(|current| *current = script);
    })
}

async fn add_faults(Shared(state): App, body: Bytes) -> Response {
    accept::<Vec<Step>>(&body, |steps| {
        for step in steps {
            state.push(step);
        }
    })
}

async fn clear_faults(Shared(state): App) -> StatusCode {
    state.clear_faults();
    StatusCode::NO_CONTENT
}

async fn stats(Shared(state): App) -> Json<Value> {
    Json(json!(state.stats()))
}

/// Reads a control body of any content type.
fn accept<T: DeserializeOwned>(body: &[u8], use_it: impl FnOnce(T)) -> Response {
    match serde_json::from_slice(body) {
        Ok(value) => {
            use_it(value);
            StatusCode::NO_CONTENT.into_response()
        }
        Err(error) => {
            let body = json!({"error": {"message": error.to_string()}});
            (StatusCode::BAD_REQUEST, Json(body)).into_response()
        }
    }
}

async fn unknown(request: Request) -> Response {
    no_such_path(&format!("{} {}", request.method(), request.uri().path()))
}

fn no_such_path(asked: &str) -> Response {
    let body = json!({"error": {"message": format!("the scripted model does not know {asked}")}});
    (StatusCode::NOT_FOUND, Json(body)).into_response()
}
