import { createHash, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * As much of Microsoft Graph and of its sign-in as backups and restores need, in the documented shapes: lists of changes
 * with links, batches, MIME texts, upload sessions. `onCall` lets tests break it.
 */
export interface GraphServer {
  url: string;
  graphUrl: string;
  loginUrl: string;
  mailboxes: Map<string, Mailbox>;
  calls: string[];
  onCall: ((call: GraphCall) => GraphFault | undefined) | undefined;
  pageSize: number;
  /** Who signs in after a consent, and whether that is an administrator. */
  person: { tenantId: string; isAdministrator: boolean };
  nonce: string;
  close(): Promise<void>;
}

export interface GraphCall {
  method: string;
  /** Decoded, below the version. */
  path: string;
  query: URLSearchParams;
  /** How often this path was called. */
  count: number;
  /** It is one of a batch. */
  isInBatch: boolean;
}

export interface GraphFault {
  status?: number;
  headers?: Record<string, string>;
  /** A value for JSON, or a text as it is. */
  body?: unknown;
  /** The connection ends in the middle of the answer. */
  breaksOff?: true;
}

interface Entry {
  id: string;
  /** Rises with each change of the whole server. */
  changed: number;
  tag: string;
  isRemoved: boolean;
  record: Record<string, unknown>;
  content: Buffer;
}

interface Sender {
  name: string;
  address: string;
}
interface MessageFields {
  folder?: string;
  hasAttachments?: boolean;
  from?: Sender;
}
const personOf = (sender: Sender | undefined) => (sender === undefined ? null : { emailAddress: sender });

export class Mailbox {
  readonly id = randomUUID();
  readonly folders = new Map<string, { id: string; name: string; entries: Map<string, Entry> }>();
  readonly contacts = new Map<string, Entry>();
  readonly contactFolders = new Map<string, { id: string; name: string; entries: Map<string, Entry> }>();
  readonly calendars = new Map<string, { id: string; name: string; entries: Map<string, Entry> }>();
  readonly files = new Map<string, Entry>();
  hasDrive = true;

  constructor() {
    this.folders.set('inbox', { id: 'inbox', name: 'Inbox', entries: new Map() });
    this.calendars.set('calendar', { id: 'calendar', name: 'Calendar', entries: new Map() });
    put(this.files, 'root', { name: 'root', root: {}, folder: {} });
  }

  message(
    id: string,
    subject: string,
    text = subject,
    { folder = 'inbox', hasAttachments = false, from }: MessageFields = {},
  ): void {
    const content = Buffer.from(`Message-ID: <${id}@example.com>\r\nSubject: ${subject}\r\n\r\n${text}\r\n`);
    const record = {
      subject,
      hasAttachments,
      internetMessageId: `<${id}@example.com>`,
      from: personOf(from),
    };
    put(this.folders.get(folder)!.entries, id, record, content);
  }

  contact(id: string, displayName: string): void {
    put(this.contacts, id, { displayName, emailAddresses: [{ address: `${id}@example.com` }] });
  }

  event(id: string, subject: string, organizer?: Sender): void {
    const start = { dateTime: '2026-11-23T10:00:00.0000000', timeZone: 'UTC' };
    const record = { subject, type: 'singleInstance', start, end: start, organizer: personOf(organizer) };
    put(this.calendars.get('calendar')!.entries, id, record);
  }

  folder(id: string, name: string, parent = 'root'): void {
    put(this.files, id, { name, folder: {}, parentReference: { id: parent } });
  }

  file(id: string, name: string, content: Buffer, parent = 'root'): void {
    const record = { name, size: content.length, file: {}, parentReference: { id: parent } };
    put(this.files, id, record, content);
  }
}

let clock = 0;

function put(
  entries: Map<string, Entry>,
  id: string,
  record: Record<string, unknown>,
  content: Buffer = Buffer.alloc(0),
): Entry {
  clock += 1;
  const entry = { id, changed: clock, tag: `t${clock}`, isRemoved: false, record, content };
  // A changed entry comes last.
  entries.delete(id);
  entries.set(id, entry);
  return entry;
}

export function removeEntry(entries: Map<string, Entry>, id: string): void {
  const entry = put(entries, id, {});
  entry.isRemoved = true;
}

class Refused extends Error {
  readonly fault: GraphFault;
  constructor(status: number, code: string) {
    super(code);
    this.fault = { status, body: { error: { code, message: `It is ${code}.` } } };
  }
}

type Answer = { status: number; headers?: Record<string, string>; body: unknown };

export async function startGraphServer(): Promise<GraphServer> {
  const server = createServer((request, response) => {
    void respond(self, request, response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;
  const self: GraphServer = {
    url,
    graphUrl: `${url}/v1.0`,
    loginUrl: `${url}/login`,
    mailboxes: new Map(),
    calls: [],
    onCall: undefined,
    pageSize: 10,
    person: { tenantId: randomUUID(), isAdministrator: true },
    nonce: '',
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return self;
}

async function respond(self: GraphServer, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const body = Buffer.concat(chunks);
  const url = new URL(request.url ?? '', self.url);
  let answer: GraphFault;
  if (url.pathname.startsWith('/login/')) {
    answer =
      request.method === 'GET' ? sendBack(self, url) : signIn(self, new URLSearchParams(body.toString()));
  } else if (url.pathname.startsWith('/files/')) answer = preauthorized(self, url, request, body);
  else if (request.headers.authorization !== 'Bearer app-token') {
    answer = new Refused(401, 'InvalidAuthenticationToken').fault;
  } else answer = call(self, request.method ?? '', url, body, request.headers);
  const { status = 200, headers = {}, body: content, breaksOff } = answer;
  const isText = Buffer.isBuffer(content) || typeof content === 'string';
  const type = isText ? 'text/plain' : 'application/json';
  const bytes = isText ? content : JSON.stringify(content ?? {});
  if (breaksOff === true) {
    response.writeHead(200, { 'content-type': type, 'content-length': Buffer.byteLength(bytes) + 100 });
    response.write(bytes, () => response.destroy());
    return;
  }
  response.writeHead(status, { 'content-type': type, ...headers }).end(bytes);
}

/** What the pages of Microsoft do when a person has consented, or has signed in: the browser goes back. */
function sendBack(self: GraphServer, { pathname, searchParams }: URL): GraphFault {
  const given = (name: string) => searchParams.get(name) ?? '';
  const isConsent = pathname.endsWith('/adminconsent');
  if (!isConsent) self.nonce = given('nonce');
  const answer = isConsent
    ? { admin_consent: 'True', tenant: self.person.tenantId, state: given('state') }
    : { code: 'a-code', state: given('state') };
  const location = `${given('redirect_uri')}?${new URLSearchParams(answer).toString()}`;
  return { status: 302, headers: { location }, body: '' };
}

function signIn(self: GraphServer, form: URLSearchParams): GraphFault {
  if (form.get('client_secret') === 'wrong') return { status: 401, body: { error: 'invalid_client' } };
  if (form.get('grant_type') === 'client_credentials') {
    return { body: { access_token: 'app-token', expires_in: 3599, token_type: 'Bearer' } };
  }
  const claims = {
    tid: self.person.tenantId,
    oid: '11111111-2222-4333-8444-555555555555',
    nonce: self.nonce,
    aud: form.get('client_id'),
    exp: Math.floor(Date.now() / 1000) + 600,
  };
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
  return { body: { id_token: `${part({ alg: 'RS256' })}.${part(claims)}.x`, access_token: 'x' } };
}

function call(
  self: GraphServer,
  method: string,
  url: URL,
  body: Buffer,
  headers: IncomingMessage['headers'],
  isInBatch = false,
): GraphFault {
  const path = decodeURIComponent(url.pathname.replace(/^\/v1\.0/, ''));
  const name = `${method} ${path}`;
  self.calls.push(name);
  const count = self.calls.filter((one) => one === name).length;
  const fault = self.onCall?.({ method, path, query: url.searchParams, count, isInBatch });
  if (fault !== undefined) return fault;
  try {
    if (path === '/$batch') return batch(self, body);
    return route(self, method, path, url, body, headers);
  } catch (error) {
    if (error instanceof Refused) return error.fault;
    throw error;
  }
}

function batch(self: GraphServer, body: Buffer): Answer {
  const { requests } = JSON.parse(body.toString()) as { requests: { id: string; url: string }[] };
  if (requests.length > 20) throw new Refused(400, 'TooManyRequests');
  const responses = requests.map(({ id, url }) => {
    const answer = call(self, 'GET', new URL(`${self.graphUrl}${url}`), Buffer.alloc(0), {}, true);
    const content = Buffer.isBuffer(answer.body) ? answer.body.toString('base64') : answer.body;
    return { id, status: answer.status ?? 200, headers: answer.headers ?? {}, body: content };
  });
  return { status: 200, body: { responses: responses.reverse() } };
}

function route(
  self: GraphServer,
  method: string,
  path: string,
  url: URL,
  body: Buffer,
  headers: IncomingMessage['headers'],
): Answer {
  const ok = (value: unknown): Answer => ({ status: 200, body: value });
  const [, , who = '', ...rest] = path.split('/');
  if (path === '/users') {
    return ok({
      value: [...self.mailboxes].map(([mail, { id }]) => ({ id, mail, userPrincipalName: mail })),
    });
  }
  if (rest.join('/') === 'memberOf/microsoft.graph.directoryRole') {
    const roleTemplateId = self.person.isAdministrator ? '62e90394-69f5-4237-9190-012177145e10' : 'none';
    return ok({ value: [{ roleTemplateId }] });
  }
  const mailbox = self.mailboxes.get(who) ?? [...self.mailboxes.values()].find(({ id }) => id === who);
  if (mailbox === undefined) throw new Refused(404, 'Request_ResourceNotFound');
  const below = rest.join('/');
  const json = () => JSON.parse(body.toString()) as Record<string, unknown>;
  const sets = {
    mailFolders: mailbox.folders,
    contactFolders: mailbox.contactFolders,
    calendars: mailbox.calendars,
  };
  if (below === '') return ok({ id: mailbox.id, mail: who });
  const [kind = '', id = '', what = '', ...more] = rest;
  const folders = kind in sets ? sets[kind as keyof typeof sets] : undefined;
  if (folders !== undefined && id === '') {
    if (method === 'POST') {
      const made = {
        id: randomUUID(),
        name: String(json()['displayName'] ?? json()['name']),
        entries: new Map(),
      };
      folders.set(made.id, made);
      return { status: 201, body: { id: made.id } };
    }
    const value = [...folders.values()].map((folder) => ({
      id: folder.id,
      displayName: folder.name,
      name: folder.name,
      childFolderCount: 0,
    }));
    return ok({ value });
  }
  if (folders !== undefined) {
    const folder = folders.get(id);
    if (folder === undefined) throw new Refused(404, 'ErrorItemNotFound');
    if (method === 'POST') return { status: 201, body: { id: create(folder.entries, body, headers) } };
    const filter = url.searchParams.get('$filter');
    if (filter !== null) return ok({ value: matching(folder.entries, filter) });
    if (what === 'messages' || more[0] === 'delta') return delta(self, url, folder.entries, shownAs.record);
    return listed(self, url, folder.entries);
  }
  if (below === 'contacts/delta') return delta(self, url, mailbox.contacts, shownAs.record);
  if (kind === 'messages') {
    const entry = [...mailbox.folders.values()].map(({ entries }) => entries.get(id)).find(Boolean);
    if (entry === undefined || entry.isRemoved) throw new Refused(404, 'ErrorItemNotFound');
    return ok(entry.content);
  }
  if (kind === 'drive') return drive(self, mailbox, method, below.slice('drive/'.length), url, body);
  throw new Refused(404, 'BadRequest');
}

const shownAs = {
  record: (entry: Entry) =>
    entry.isRemoved
      ? { id: entry.id, '@removed': { reason: 'deleted' } }
      : { '@odata.etag': entry.tag, changeKey: entry.tag, ...entry.record, id: entry.id },
  file: (entry: Entry) =>
    entry.isRemoved
      ? { id: entry.id, deleted: { state: 'deleted' } }
      : { ...entry.record, eTag: entry.tag, id: entry.id },
};

/** A token is `since.until.offset`: changes after `since`, up to the moment in which the round began. */
function delta(
  self: GraphServer,
  url: URL,
  entries: Map<string, Entry>,
  show: (entry: Entry) => object,
): Answer {
  const given = url.searchParams.get('$skiptoken') ?? url.searchParams.get('$deltatoken') ?? '0.0';
  const [since = 0, begun = 0] = given.split('.').map(Number);
  const after = Math.max(since, begun);
  const wanted = [...entries.values()].filter(
    ({ changed, isRemoved }) => changed > after && !(isRemoved && since === 0),
  );
  const page = wanted.slice(0, self.pageSize);
  const link = (name: string, token: string) => `${self.url}${url.pathname}?${name}=${token}`;
  const last = page.at(-1)?.changed ?? after;
  const isLast = wanted.length <= page.length;
  return {
    status: 200,
    body: {
      value: page.map(show),
      ...(isLast
        ? { '@odata.deltaLink': link('$deltatoken', `${Math.max(last, 1)}.0`) }
        : { '@odata.nextLink': link('$skiptoken', `${since}.${last}`) }),
    },
  };
}

function listed(self: GraphServer, url: URL, entries: Map<string, Entry>): Answer {
  const skip = Number(url.searchParams.get('$skip') ?? 0);
  const all = [...entries.values()].filter(({ isRemoved }) => !isRemoved);
  const next = skip + self.pageSize;
  return {
    status: 200,
    body: {
      value: all.slice(skip, next).map(shownAs.record),
      ...(next < all.length ? { '@odata.nextLink': `${self.url}${url.pathname}?$skip=${next}` } : {}),
    },
  };
}

function create(entries: Map<string, Entry>, body: Buffer, headers: IncomingMessage['headers']): string {
  const id = randomUUID();
  if (headers['content-type'] === 'text/plain') {
    const mime = Buffer.from(body.toString(), 'base64');
    const internetMessageId = /^Message-ID: (.*)\r$/m.exec(mime.toString())?.[1];
    put(entries, id, { subject: /^Subject: (.*)\r$/m.exec(mime.toString())?.[1], internetMessageId }, mime);
  } else put(entries, id, JSON.parse(body.toString()) as Record<string, unknown>);
  return id;
}

function matching(entries: Map<string, Entry>, filter: string): { id: string }[] {
  const value = /eq '([^']*)'\)?$/.exec(filter)?.[1] ?? '';
  return [...entries.values()]
    .filter(({ record }) => JSON.stringify(record).includes(JSON.stringify(value).slice(1, -1)))
    .map(({ id }) => ({ id }));
}

function drive(
  self: GraphServer,
  mailbox: Mailbox,
  method: string,
  below: string,
  url: URL,
  body: Buffer,
): Answer {
  if (!mailbox.hasDrive) throw new Refused(404, 'ResourceNotFound');
  if (below === 'root/delta') return delta(self, url, mailbox.files, shownAs.file);
  const [, id] = /^items\/([^/]+)\/content$/.exec(below) ?? [];
  if (id !== undefined) {
    const entry = mailbox.files.get(id);
    if (entry === undefined || entry.isRemoved) throw new Refused(404, 'itemNotFound');
    return { status: 302, headers: { location: `${self.url}/files/${mailbox.id}/${id}` }, body: '' };
  }
  const [, path = ''] = /^root:\/(.*?)(?::\/(?:createUploadSession|content))?$/.exec(below) ?? [];
  const present = mailbox.files.get(`path:${path}`);
  if (method === 'GET') {
    if (present === undefined) throw new Refused(404, 'itemNotFound');
    if (below.endsWith(':/content')) {
      const location = `${self.url}/files/${mailbox.id}/${encodeURIComponent(`path:${path}`)}`;
      return { status: 302, headers: { location }, body: '' };
    }
    return { status: 200, body: { id: present.id.replace(/[^\w.-]/g, '_'), size: present.content.length } };
  }
  if (method === 'PUT') {
    put(mailbox.files, `path:${path}`, { name: path, file: {} }, body);
    return { status: 201, body: { id: `path:${path}`.replace(/[^\w.-]/g, '_') } };
  }
  return {
    status: 200,
    body: { uploadUrl: `${self.url}/files/${mailbox.id}/upload?path=${encodeURIComponent(path)}` },
  };
}

/** Addresses that carry their own right, and must not get the token. */
function preauthorized(
  self: GraphServer,
  url: URL,
  { headers, method }: IncomingMessage,
  body: Buffer,
): GraphFault {
  const [, , who, id = ''] = url.pathname.split('/');
  const mailbox = [...self.mailboxes.values()].find((one) => one.id === who);
  if (mailbox === undefined) return { status: 404 };
  if (method === 'PUT') {
    if (headers.authorization !== undefined) return { status: 400, body: 'the token was sent' };
    const key = `path:${url.searchParams.get('path')}`;
    const [, first, last, total] = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(headers['content-range'] ?? '') ?? [];
    const before =
      Number(first) === 0 ? Buffer.alloc(0) : (mailbox.files.get(key)?.content ?? Buffer.alloc(0));
    put(
      mailbox.files,
      key,
      { name: key, file: {} },
      Buffer.concat([before.subarray(0, Number(first)), body]),
    );
    const isWhole = Number(last) + 1 === Number(total);
    return isWhole
      ? { status: 201, body: { id: createHash('sha256').update(key).digest('hex').slice(0, 20) } }
      : { status: 202, body: { nextExpectedRanges: [`${Number(last) + 1}-`] } };
  }
  const fault = self.onCall?.({
    method: 'GET',
    path: `/files/${id}`,
    query: url.searchParams,
    count: self.calls.filter((one) => one === `FILE ${id}`).length + 1,
    isInBatch: false,
  });
  self.calls.push(`FILE ${id}`);
  return fault ?? { body: mailbox.files.get(decodeURIComponent(id))?.content ?? '' };
}
