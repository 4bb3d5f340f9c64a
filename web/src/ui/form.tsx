/** A form made from a JSON Schema, for questions of tools, edited arguments and tools to try. */

import type { JSX } from "preact";
import { exact } from "../model/invisible";
import type { Draft, Field } from "../model/schema_form";

export interface FormProps {
  fields: readonly Field[];
  draft: Draft;
  problems: Record<string, string>;
  onChange: (draft: Draft) => void;
  /** Values before the person changed them, shown beside the new ones. */
  before?: Draft;
  idPrefix: string;
}

export function SchemaForm({ fields, draft, problems, onChange, before, idPrefix }: FormProps): JSX.Element {
  return (
    <div class="fields">
      {fields.map((field) => {
        const id = `${idPrefix}-${field.key}`;
        const value = draft[field.key];
        const old = before?.[field.key];
        const changed = before !== undefined && JSON.stringify(old) !== JSON.stringify(value);
        const set = (next: Draft[string]) => onChange({ ...draft, [field.key]: next });
        const problem = problems[field.key];
        const described = [field.help && `${id}-help`, problem && `${id}-problem`].filter(Boolean).join(" ");
        return (
          <div class="field" key={field.key}>
            <label for={id} id={`${id}-label`}>
              {exact(field.title)}
              {field.required ? null : <span class="dim"> optional</span>}
            </label>
            <div class="control">
              <Control field={field} id={id} value={value} set={set} described={described} invalid={problem !== undefined} />
              {field.help ? (
                <p class="help" id={`${id}-help`}>
                  {exact(field.help)}
                </p>
              ) : null}
              {problem ? (
                <p class="problem" id={`${id}-problem`}>
                  {problem}
                </p>
              ) : null}
              {changed ? (
                <p class="was">
                  <del>{exact(String(old))}</del> → <ins>{exact(String(value))}</ins> changed by you; the model is told
                </p>
              ) : null}
            </div>
          </div>
        );
      })}
    </div>
  );
}

interface ControlProps {
  field: Field;
  id: string;
  value: Draft[string] | undefined;
  set: (value: Draft[string]) => void;
  described: string;
  invalid: boolean;
}

const INPUT_TYPES: Record<string, string> = { email: "email", uri: "url", date: "date", "date-time": "datetime-local", password: "password" };

function Control({ field, id, value, set, described, invalid }: ControlProps): JSX.Element {
  const common = { id, "aria-invalid": invalid, ...(described ? { "aria-describedby": described } : {}) };
  switch (field.kind) {
    case "boolean":
      return (
        <Segments id={id} value={value === true ? "true" : "false"} set={(word) => set(word === "true")} options={["true", "false"].map((word) => ({ value: word, label: word }))} />
      );
    case "choice":
      if (field.many) return <Many id={id} field={field} value={(value as string[] | undefined) ?? []} set={set} />;
      if (field.options.length <= 4) return <Segments id={id} value={String(value ?? "")} set={set} options={field.options} />;
      return (
        <select class="inp" {...common} value={String(value ?? "")} onChange={(event) => set(event.currentTarget.value)}>
          <option value="">Choose…</option>
          {field.options.map((option) => (
            <option value={option.value}>{exact(option.label)}</option>
          ))}
        </select>
      );
    case "json":
      return <textarea class="inp mono" rows={4} spellcheck={false} {...common} value={String(value ?? "")} onInput={(event) => set(event.currentTarget.value)} />;
    case "number":
      return <input class="inp mono" inputMode="decimal" autocomplete="off" {...common} value={String(value ?? "")} onInput={(event) => set(event.currentTarget.value)} />;
    default:
      if (field.multiline) return <textarea class="inp mono" rows={4} {...common} value={String(value ?? "")} onInput={(event) => set(event.currentTarget.value)} />;
      return (
        <input class="inp mono" type={(INPUT_TYPES[field.format] ?? "text") as "text"} autocomplete="off" {...common} value={String(value ?? "")} onInput={(event) => set(event.currentTarget.value)} />
      );
  }
}

interface Choices {
  id: string;
  value: string;
  set: (value: string) => void;
  options: { value: string; label: string }[];
}

function Segments({ id, value, set, options }: Choices): JSX.Element {
  return (
    <div class="seg" role="radiogroup" aria-labelledby={`${id}-label`} id={id}>
      {options.map((option) => (
        <label>
          <input type="radio" name={id} checked={option.value === value} onChange={() => set(option.value)} />
          <span>{exact(option.label)}</span>
        </label>
      ))}
    </div>
  );
}

function Many({ id, field, value, set }: { id: string; field: Extract<Field, { kind: "choice" }>; value: string[]; set: (value: string[]) => void }): JSX.Element {
  return (
    <div class="many" role="group" aria-labelledby={`${id}-label`} id={id}>
      {field.options.map((option) => (
        <label>
          <input
            type="checkbox"
            checked={value.includes(option.value)}
            onChange={(event) => set(event.currentTarget.checked ? [...value, option.value] : value.filter((one) => one !== option.value))}
          />
          <span>{exact(option.label)}</span>
        </label>
      ))}
    </div>
  );
}
