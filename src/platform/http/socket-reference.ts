import { z } from 'zod';

/** The socket messages of each namespace, as the reference shows them. */
export type SocketReference = readonly {
  namespace: string;
  intro: string;
  messages: readonly {
    name: string;
    direction: string;
    summary: string;
    payload: z.ZodType;
    example: unknown;
    ack?: z.ZodType;
    ackExample?: unknown;
  }[];
}[];

type Message = SocketReference[number]['messages'][number];

const TITLE = 'Socket messages';
const INTRO =
  'An acknowledgement is either the one shown here or `{ "ok": false, "error": { "code", "message" } }`. The error may hold `details`, and `retryAfterMs` if the refusal is temporary. For a command type, the payload is that of `command`, and the result is the `output` of `command:result`.';

/** The content of a section beneath its heading: the payload, then the acknowledgement or the output. */
function partsOf(message: Message): { title: string; fields: SchemaField[]; example: string }[] {
  const { payload, example, ack, ackExample, direction } = message;
  const isCommandType = !direction.includes('→');
  const answer = {
    title: isCommandType ? 'Output' : 'Acknowledgement',
    fields: ack === undefined ? [] : fieldsOf(ack, 'output'),
    example: pretty(ackExample),
  };
  return [
    { title: 'Payload', fields: fieldsOf(payload, 'input'), example: pretty(example) },
    ...(ack === undefined ? [] : [answer]),
  ];
}

const pretty = (value: unknown) => JSON.stringify(value, null, 2);

/** The reference as a page of Markdown, for readers of the repository. */
export function socketMarkdown(reference: SocketReference): string {
  const sections = reference.map(({ namespace, intro, messages }) =>
    [`## Namespace \`${namespace}\``, intro, ...messages.map(messageMarkdown)].join('\n\n'),
  );
  return `${[`# ${TITLE}`, '<!-- Written by `npm run docs`. Do not edit. -->', INTRO, ...sections].join('\n\n')}\n`;
}

function messageMarkdown(message: Message): string {
  const parts = partsOf(message).flatMap(({ title, fields, example }) => [
    `**${title}**`,
    fields.length === 0 ? 'No fields.' : fieldsMarkdown(fields),
    `\`\`\`json\n${example}\n\`\`\``,
  ]);
  return [`### \`${message.name}\``, `*${message.direction}*. ${message.summary}`, ...parts].join('\n\n');
}

function fieldsMarkdown(fields: readonly SchemaField[]): string {
  const cell = (text: string) => text.replaceAll('|', String.raw`\|`).replaceAll('\n', ' ');
  const rows = fields.map(
    ({ name, type, isRequired, meaning }) =>
      `| \`${name}\` | ${cell(type)} | ${isRequired ? 'yes' : 'no'} | ${cell(meaning)} |`,
  );
  return ['| Field | Type | Required | Meaning |', '| --- | --- | --- | --- |', ...rows].join('\n');
}

/** The same reference as the body of an HTML page, with the classes of Swagger UI's style sheet. */
export function socketHtml(reference: SocketReference): string {
  const contents = reference.map(
    ({ namespace, messages }) =>
      `<h2>${code(namespace)}</h2><ul>${messages.map((message) => `<li><a href="/docs/sockets#${idOf(namespace, message)}">${escapeHtml(message.name)}</a></li>`).join('')}</ul>`,
  );
  const sections = reference.map(
    ({ namespace, intro, messages }) =>
      `<section><h2>Namespace ${code(namespace)}</h2><p>${withCode(intro)}</p>${messages.map((message) => messageHtml(namespace, message)).join('\n')}</section>`,
  );
  return `<div class="sockets"><nav aria-label="Messages"><label>Search <input type="search" id="search" autocomplete="off"></label><p id="found" role="status"></p>${contents.join('')}</nav><main><h1>${TITLE}</h1><p>${withCode(INTRO)}</p>${sections.join('\n')}</main></div>`;
}

function messageHtml(namespace: string, message: Message): string {
  const parts = partsOf(message).map(
    ({ title, fields, example }) =>
      `<h4>${title}</h4>${fields.length === 0 ? '<p>No fields.</p>' : fieldsHtml(fields)}<pre tabindex="0" aria-label="Example"><code>${escapeHtml(example)}</code></pre>`,
  );
  return `<article id="${idOf(namespace, message)}"><h3><span class="direction">${escapeHtml(message.direction)}</span> ${code(message.name)}</h3><p>${withCode(message.summary)}</p>${parts.join('')}</article>`;
}

/** Both namespaces have a handshake, and terminals have messages of one name in both directions; other names are unique. */
function idOf(namespace: string, { name, direction }: Message): string {
  if (name === 'handshake') return escapeHtml(`${namespace.slice(1)}-${name}`);
  return escapeHtml(name.startsWith('terminal:') && direction.startsWith('hub') ? `${name}-from-hub` : name);
}

function fieldsHtml(fields: readonly SchemaField[]): string {
  const rows = fields.map(
    ({ name, type, isRequired, meaning }) =>
      `<tr><td>${code(name)}${isRequired ? ' <b title="required">*</b>' : ''}</td><td>${escapeHtml(type)}</td><td>${withCode(meaning)}</td></tr>`,
  );
  return `<table><thead><tr><th>Field (* required)</th><th>Type</th><th>Meaning</th></tr></thead><tbody>${rows.join('')}</tbody></table>`;
}

/** The search of the page: messages whose name, meaning or fields have the words. Runs in the browser. */
export const SOCKET_SEARCH = `
const field = document.getElementById('search');
const found = document.getElementById('found');
const articles = [...document.querySelectorAll('article')];
const texts = articles.map((article) => article.textContent.toLowerCase());
const links = new Map([...document.querySelectorAll('nav a')].map((link) => [decodeURIComponent(link.hash.slice(1)), link.parentElement]));
field.addEventListener('input', () => {
  const wanted = field.value.trim().toLowerCase();
  let count = 0;
  articles.forEach((article, at) => {
    article.hidden = !texts[at].includes(wanted);
    const link = links.get(article.id);
    if (link !== undefined) link.hidden = article.hidden;
    if (!article.hidden) count += 1;
  });
  found.textContent = wanted === '' ? '' : count + (count === 1 ? ' message' : ' messages');
});
`;

export const SOCKET_STYLE = `body{margin:0}.sockets nav h2{font-size:1rem}.sockets nav input{display:block;width:100%;box-sizing:border-box;font:inherit;padding:.3rem}.sockets a{color:#1f5fa8}[hidden]{display:none!important}
.sockets{display:flex;gap:2rem;max-width:80rem;margin:0 auto;font:15px/1.5 system-ui,sans-serif;color:#3b4151}
.sockets nav{position:sticky;top:0;max-height:100vh;overflow:auto;flex:0 0 15rem;padding:1rem}.sockets nav ul{list-style:none;margin:0;padding:0}
.sockets main{flex:1;min-width:0;padding:1rem}.sockets article{border:1px solid #61affe;border-radius:4px;background:#f5faff;margin:1rem 0;padding:0 1rem 1rem}
.sockets .direction{background:#1f5fa8;color:#fff;border-radius:3px;padding:.2rem .6rem;font-size:.8rem}.sockets table{width:100%;border-collapse:collapse;background:#fff}
.sockets th,.sockets td{text-align:left;vertical-align:top;border-bottom:1px solid #e3e6eb;padding:.35rem .5rem}.sockets pre{background:#333;color:#fff;border-radius:4px;padding:.8rem;overflow:auto}
@media(max-width:50rem){.sockets{display:block}.sockets nav{position:static}}`;

const code = (text: string) => `<code>${escapeHtml(text)}</code>`;

/** Text with `code` in backticks, as the descriptions of schemas have it. */
const withCode = (text: string) => escapeHtml(text).replaceAll(/`([^`]+)`/g, '<code>$1</code>');

export function escapeHtml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}

/** One field of a message, as a table shows it. */
interface SchemaField {
  /** The path of the field, such as `devices[].presence.state`. Empty for a message that is no object. */
  name: string;
  type: string;
  isRequired: boolean;
  /** Empty if the name says it all. */
  meaning: string;
}

interface JsonSchema {
  type?: string | string[];
  format?: string;
  const?: unknown;
  enum?: unknown[];
  anyOf?: JsonSchema[];
  oneOf?: JsonSchema[];
  allOf?: JsonSchema[];
  properties?: Record<string, JsonSchema>;
  additionalProperties?: JsonSchema | boolean;
  required?: string[];
  items?: JsonSchema;
  description?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  exclusiveMinimum?: number;
  maximum?: number;
  maxItems?: number;
  default?: unknown;
  $ref?: string;
  $defs?: Record<string, JsonSchema>;
}

/**
 * The fields of an object schema, nested ones included, each parent before its children.
 * @param io  `input` for what a sender writes, `output` for what a receiver gets
 */
export function fieldsOf(schema: z.ZodType, io: 'input' | 'output'): SchemaField[] {
  const root = z.toJSONSchema(schema, { io, unrepresentable: 'any' }) as JsonSchema;
  return childrenOf(root, '', root.$defs ?? {});
}

type Definitions = Readonly<Record<string, JsonSchema>>;

function childrenOf(schema: JsonSchema, prefix: string, definitions: Definitions): SchemaField[] {
  const { properties = {}, required = [] } = resolved(schema, definitions);
  return Object.entries(properties).flatMap(([key, property]) => {
    const name = prefix === '' ? key : `${prefix}.${key}`;
    const field = {
      name,
      type: typeOf(property, definitions),
      isRequired: required.includes(key),
      meaning: meaningOf(property, definitions),
    };
    return [field, ...nestedOf(property, name, definitions)];
  });
}

/** The fields of an object, of the objects in a list, or of the one object among alternatives. */
function nestedOf(schema: JsonSchema, name: string, definitions: Definitions): SchemaField[] {
  const { properties, items, anyOf } = resolved(schema, definitions);
  if (properties !== undefined) return childrenOf(schema, name, definitions);
  if (items !== undefined) return nestedOf(items, `${name}[]`, definitions);
  return (anyOf ?? []).flatMap((alternative) => nestedOf(alternative, name, definitions));
}

function resolved(schema: JsonSchema, definitions: Definitions): JsonSchema {
  const name = schema.$ref?.replace('#/$defs/', '');
  const definition = name === undefined ? undefined : definitions[name];
  return definition === undefined ? schema : { ...definition, ...schema };
}

function meaningOf(schema: JsonSchema, definitions: Definitions): string {
  const { description = '', default: preset } = resolved(schema, definitions);
  return preset === undefined ? description : `${description} Default: ${JSON.stringify(preset)}.`.trim();
}

function typeOf(schema: JsonSchema, definitions: Definitions): string {
  const full = resolved(schema, definitions);
  if (full.const !== undefined) return JSON.stringify(full.const);
  if (full.enum !== undefined) return full.enum.map((value) => JSON.stringify(value)).join(' | ');
  const alternatives = full.anyOf ?? full.oneOf;
  if (alternatives !== undefined) {
    return [...new Set(alternatives.map((alternative) => typeOf(alternative, definitions)))].join(' | ');
  }
  if (Array.isArray(full.type)) {
    return full.type.map((type) => typeOf({ ...full, type }, definitions)).join(' | ');
  }
  switch (full.type) {
    case 'array': {
      const most = full.maxItems === undefined ? '' : ` (at most ${full.maxItems})`;
      return `list${most} of ${full.items === undefined ? 'any' : typeOf(full.items, definitions)}`;
    }
    case 'object':
      return full.properties === undefined && typeof full.additionalProperties === 'object'
        ? `object of ${typeOf(full.additionalProperties, definitions)}`
        : 'object';
    case 'string':
      return full.format === undefined ? `string${lengthOf(full)}` : `string (${full.format})`;
    case 'integer':
    case 'number':
      return `${full.type}${rangeOf(full)}`;
    case undefined:
      return 'any';
    default:
      return full.type;
  }
}

function lengthOf({ minLength, maxLength }: JsonSchema): string {
  if (maxLength === undefined) return '';
  return minLength === undefined
    ? `, at most ${maxLength} characters`
    : `, ${minLength}–${maxLength} characters`;
}

function rangeOf({ minimum, exclusiveMinimum, maximum }: JsonSchema): string {
  const isBounded = maximum !== undefined && maximum < Number.MAX_SAFE_INTEGER;
  const least = minimum ?? (exclusiveMinimum === undefined ? undefined : exclusiveMinimum + 1);
  const isFromBelow = least !== undefined && least > Number.MIN_SAFE_INTEGER;
  if (isBounded && isFromBelow) return `, ${least}–${maximum}`;
  if (isBounded) return `, at most ${maximum}`;
  return isFromBelow ? `, at least ${least}` : '';
}
