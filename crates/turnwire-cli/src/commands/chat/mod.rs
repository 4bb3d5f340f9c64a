//! `turnwire chat`: a conversation in the terminal.
//!
//! Every message is a run, on a server or on one that this process starts for itself. So questions,
//! approvals, cut lines and stored conversations work the same way in both cases.

mod editor;
mod history;
mod local_server;

use std::{
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use futures::StreamExt;
use turnwire::{Event, RunId};

use self::{
    editor::{LineEditor, Typed},
    history::Resumed,
    local_server::LocalServer,
};
use super::watched::{LAST_MOMENT, after_end, exit_of, refuse_with_server, runtime};
use crate::{
    args::{ChatArguments, DisplayArguments},
    environment::Environment,
    exit::{Exit, Problem, Result},
    server_client::{NewRun, ServerClient, connect_if_named, follow_started, start},
    signals::{Signal, Signals, listen},
    telemetry,
    terminal::{Look, Streams, View, tell},
    watch::{
        Answering, OpenRun, RunUpdate, TerminalMode, TypedAhead, WatchEnd, WithoutTerminal, asker,
        watch,
    },
};

const HELP: &str = "\
/new       begins a new conversation
/help      shows this
/quit      leaves; so does ctrl-d

A line that ends with a backslash goes on in the next one, and so does an
open ``` block. Alt-Enter begins a new line, and pasted lines stay together.
The arrow keys bring back what was written before.
While an answer is made, Esc or ctrl-c stops it, and ctrl-b leaves it to the
server.";

pub(crate) fn chat(arguments: &ChatArguments, environment: &Environment) -> Exit {
    let display = DisplayArguments {
        plain: arguments.plain,
        tools: arguments.tools,
        color: arguments.color,
        ..DisplayArguments::default()
    };
    let look = Look::choose(&display, environment, Streams::of_this_process()).formatted();
    chat_with(arguments, environment, look).unwrap_or_else(|problem| problem.shown(look.paint))
}

fn chat_with(arguments: &ChatArguments, environment: &Environment, look: Look) -> Result<Exit> {
    telemetry::start(environment, look)?;
    let named = connect_if_named(arguments.server.server.as_ref(), environment, look.paint)?;
    if named.is_some() {
        refuse_local_options(arguments)?;
    }
    // The editor may hold the terminal when a signal ends the chat.
    let _mode = TerminalMode::save();
    let runtime = runtime()?;
    let ended = runtime.block_on(Box::pin(async {
        let (client, local) = if let Some(client) = named {
            (client, None)
        } else {
            let local = LocalServer::start(arguments, environment, look.paint).await?;
            (local.client()?, Some(local))
        };
        let look = if local.is_none() { look.detachable() } else { look };
        let editor = LineEditor::open(history_file(environment), prompt(look))?;
        let chat = Chat {
            client,
            is_local: local.is_some(),
            is_kept: local.as_ref().is_none_or(LocalServer::has_store),
            // A server of its own has the model as its default.
            model: arguments.model.as_deref().filter(|_| local.is_none()),
            answering: Answering { policy: arguments.approve, otherwise: WithoutTerminal::Deny },
            environment,
            look,
            editor,
            signals: listen()?,
            typed_ahead: TypedAhead::default(),
            conversation: Arc::default(),
        };
        let ended = chat.run(arguments.resume.as_deref()).await;
        if let Some(local) = local {
            local.close().await;
        }
        ended
    }));
    runtime.shutdown_timeout(LAST_MOMENT);
    ended
}

struct Chat<'a> {
    client: ServerClient,
    is_local: bool,
    /// Whether conversations outlive this process.
    is_kept: bool,
    /// The model of the messages, if it is not the default of the server.
    model: Option<&'a str>,
    answering: Answering,
    environment: &'a Environment,
    look: Look,
    editor: LineEditor,
    signals: Signals,
    /// What was typed while an answer was made.
    typed_ahead: TypedAhead,
    /// ID of the conversation, once it has a run.
    conversation: Arc<Mutex<Option<String>>>,
}

/// What follows a message or a command.
enum Next {
    Ask,
    Leave(Exit),
}

impl Chat<'_> {
    async fn run(mut self, resume: Option<&str>) -> Result<Exit> {
        self.greet();
        if let Some(wanted) = resume
            && let Next::Leave(exit) = self.resume(wanted).await?
        {
            return Ok(exit);
        }
        loop {
            let typed = tokio::select! {
                biased;
                signal = self.signals.next() => return Ok(signal.into()),
                typed = self.editor.line(&self.typed_ahead) => typed,
            };
            let next = match typed {
                Typed::End => Next::Leave(Exit::Done),
                Typed::Interrupted => {
                    self.tell("ctrl-d or /quit leaves");
                    Next::Ask
                }
                Typed::Line(line) => self.take(line.trim()).await?,
            };
            match next {
                Next::Ask if self.look.view == View::Live => tell(""),
                Next::Ask => {}
                Next::Leave(exit) => {
                    self.say_goodbye();
                    return Ok(exit);
                }
            }
        }
    }

    async fn take(&mut self, line: &str) -> Result<Next> {
        match line {
            "" => Ok(Next::Ask),
            "/quit" | "/exit" => Ok(Next::Leave(Exit::Done)),
            "/help" | "/?" => {
                self.tell(HELP);
                Ok(Next::Ask)
            }
            "/new" => {
                self.set_conversation(None);
                self.tell("a new conversation begins");
                Ok(Next::Ask)
            }
            command if command.starts_with('/') && !command.contains(char::is_whitespace) => {
                self.tell(&format!("there is no {command}; /help shows what there is"));
                Ok(Next::Ask)
            }
            message => self.send(message).await,
        }
    }

    /// Sends a message and shows the run. What goes wrong with it does not end the chat.
    async fn send(&mut self, message: &str) -> Result<Next> {
        let conversation = self.conversation();
        let conversation_id = conversation.as_deref();
        let new_run = NewRun { message, model: self.model, conversation_id };
        let started = tokio::select! {
            biased;
            signal = self.signals.next() => return Ok(stopped_by(signal)),
            started = start(&self.client, new_run) => started,
        };
        match started {
            Ok(run_id) => self.show(&run_id).await,
            Err(error) => {
                Problem::from(error).show(self.look.paint);
                Ok(Next::Ask)
            }
        }
    }

    async fn show(&mut self, run_id: &RunId) -> Result<Next> {
        let run = self.noting_conversation(follow_started(&self.client, run_id));
        let typed_ahead = Some(self.typed_ahead.clone());
        let asker = asker(self.environment, self.look, self.answering, typed_ahead);
        let watch_end = watch(run, self.look, asker, &mut self.signals, async {}).await;
        let next = match watch_end {
            Ok(WatchEnd::Over { stopped_by: Some(signal), .. }) => stopped_by(signal),
            Ok(WatchEnd::Left(signal)) => Next::Leave(signal.into()),
            Ok(WatchEnd::Detached) => {
                let base = self.client.base();
                self.tell(&format!("detached: turnwire follow {run_id} --server {base}"));
                Next::Leave(Exit::Done)
            }
            Ok(WatchEnd::NobodyReads) => Next::Leave(Exit::Done),
            Ok(watch_end) => {
                if let Err(problem) = exit_of(watch_end, after_end) {
                    problem.show(self.look.paint);
                }
                Next::Ask
            }
            Err(problem) => {
                problem.show(self.look.paint);
                Next::Ask
            }
        };
        Ok(next)
    }

    /// Continues a conversation: shows the end of it, and a run that is still in progress.
    async fn resume(&mut self, wanted: &str) -> Result<Next> {
        let Some(Resumed { id, active_run }) =
            history::resume(&self.client, wanted, self.look).await?
        else {
            self.tell("there is no conversation yet; this is a new one");
            return Ok(Next::Ask);
        };
        self.set_conversation(Some(id));
        match active_run {
            Some(run_id) => self.show(&run_id).await,
            None => Ok(Next::Ask),
        }
    }

    /// Takes the ID of the conversation from the first event of a run.
    fn noting_conversation(&self, run: OpenRun) -> OpenRun {
        let conversation = Arc::clone(&self.conversation);
        let updates = run.updates.inspect(move |update| {
            if let Ok(RunUpdate::Event(recorded)) = update
                && let Event::RunQueued { request } = &recorded.event
            {
                let id = request.conversation_id.as_ref().map(ToString::to_string);
                *conversation.lock().unwrap_or_else(PoisonError::into_inner) = id;
            }
        });
        OpenRun { updates: updates.boxed(), ..run }
    }

    fn conversation(&self) -> Option<String> {
        self.conversation.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_conversation(&self, id: Option<String>) {
        *self.conversation.lock().unwrap_or_else(PoisonError::into_inner) = id;
    }

    fn greet(&self) {
        let place = if self.is_local { "this machine" } else { self.client.base() };
        self.tell(&format!("turnwire chat · {place} · /help for help, ctrl-d to leave"));
    }

    fn say_goodbye(&self) {
        if let Some(id) = self.conversation().filter(|_| self.is_kept) {
            let server = format!(" --server {}", self.client.base());
            let server = if self.is_local { "" } else { &server };
            self.tell(&format!("continue with: turnwire chat --resume {id}{server}"));
        }
    }

    fn tell(&self, text: &str) {
        if self.look.view != View::Quiet {
            for line in text.lines() {
                tell(&self.look.paint.dim(line));
            }
        }
    }
}

/// A stopped answer is not the end of the chat, unless the process is to end.
fn stopped_by(signal: Signal) -> Next {
    match signal {
        Signal::Interrupt => Next::Ask,
        Signal::Terminate => Next::Leave(Exit::Terminated),
    }
}

fn prompt(look: Look) -> &'static str {
    match look.view {
        View::Live => "› ",
        // Symbols are not read out well.
        View::Plain | View::Quiet | View::Json => "you: ",
    }
}

/// What was written before, in the state directory of the user. Only for people at a terminal.
fn history_file(environment: &Environment) -> Option<PathBuf> {
    if !io::stdin().is_terminal() {
        return None;
    }
    let home = || Some(Path::new(environment.get("HOME")?).join(".local/state"));
    let state = environment.get("XDG_STATE_HOME").map(PathBuf::from).or_else(home)?;
    Some(state.join("turnwire/chat_history"))
}

/// The settings of the server decide about its tools.
fn refuse_local_options(arguments: &ChatArguments) -> Result<()> {
    let given = [
        (arguments.config.is_some(), "--config"),
        (!arguments.mcp_config.is_empty(), "--mcp-config"),
    ];
    refuse_with_server(&given)
}
