import { isUtf8 } from 'node:buffer';
import { parse as parseCookies } from 'cookie';
import express, { type Request, type RequestHandler, type Response, type Router } from 'express';
import type { Db } from '../db/pool.ts';
import { z } from 'zod';
import type {
  AgentCaller,
  AgentContext,
  Caller,
  Context,
  DetachedAgentContext,
  DetachedContext,
  PublicContext,
} from '../context.ts';
import type { TenantScope } from '../db/tenant-scope.ts';
import { withSystem, withTenant } from '../db/transaction.ts';
import { AppError, invalid, noFields, notFound } from '../errors.ts';
import type { ExpensiveWork } from '../concurrency.ts';
import {
  type AgentAuthenticator,
  type Authenticator,
  authorize,
  bearerToken,
  signIn,
  signInAgent,
} from './authentication.ts';
import { type AuditTrail, noteDenials } from './audit.ts';
import { StreamAnswer, type ByteBody, byteBody } from './stream-answer.ts';
import { isBrowserAnswer, Download, OpenDownload } from './file-answer.ts';
import { type Changes, changesOf } from './changes.ts';
import { validationError } from './error-body.ts';
import { keepAnswer, onceOnly, takeKey, type OnceOnly } from './idempotency.queries.ts';
import { jsonTextFault, parseBody } from './parse-body.ts';
import { isDeepPage, withoutPage } from './pagination.ts';
import {
  AuditedJson,
  RawJson,
  type AnyRoute,
  type Base,
  type CookieOptions,
  type Reply,
  type RouteGroup,
} from './route.ts';
import { requestState, type RequestState } from './request-state.ts';

export interface Pipeline {
  db: Db;
  authenticator: Authenticator;
  agents: AgentAuthenticator;
  audit: AuditTrail;
  /** Limits how many transactions of expensive rows run at once. */
  expensive: ExpensiveWork;
  reads: CoveredReads;
  /** Calls `onLost` once the caller's rights end or change. `close` ends the watch. */
  watchRights: (caller: Caller, bearer: string, onLost: () => void) => { close(): void };
}

/** Remembers which reads have an entry that covers their further pages as well. */
export interface CoveredReads {
  isCovered(key: string): boolean;
  cover(key: string): void;
}

const BODY_LIMIT = 100_000;
/** When the agent of a device that waits for approval tries again. */
const PENDING_MS = 300_000;

/** Mounts the rows of the table that stand below a base. Every row passes the same steps in the same order, and this is the only place they are in. */
export function mount(groups: readonly RouteGroup[], base: Base, pipeline: Pipeline): Router {
  const router = express.Router({ caseSensitive: true });
  for (const { routes } of groups) {
    for (const row of routes.filter(({ bases = ['/api/v1'] }) => bases.includes(base))) {
      // Who is asking is settled before a byte of the body is read.
      const admitted = noteDenials(row, pipeline, admit(row, pipeline));
      const handled = noteDenials(row, pipeline, handle(row, pipeline));
      router[row.method](row.path, admitted, expectedType(row), bodyOf(row), handled);
    }
  }
  return router;
}

function admit(row: AnyRoute, pipeline: Pipeline): RequestHandler {
  return async (request, _response, next) => {
    const state = requestState(request);
    state.route = row.path;
    await row.before?.(state.client);
    if (row.access === 'agent') {
      state.agent = await signInAgent(request, pipeline.agents);
      if (state.agent.isPending === true && row.forPending !== true) {
        throw new AppError('device_pending', 'This device waits for approval.', { retryAfterMs: PENDING_MS });
      }
    } else if (row.access !== 'public') {
      state.caller = await signIn(request, state.client, pipeline.authenticator);
      authorize(state.caller, row.access);
    }
    next();
  };
}

/** The body as it was sent, until it is checked for what `JSON.parse` does not refuse. */
const sent = new WeakMap<object, { buffer: Buffer; encoding: string }>();

function bodyOf(row: AnyRoute): RequestHandler {
  if (row.bodyType === 'bytes') return (_request, _response, next) => next();
  if (row.bodyType === 'form') {
    return express.urlencoded({ extended: false, limit: row.bodyLimit ?? BODY_LIMIT, parameterLimit: 20 });
  }
  return express.json({
    limit: row.bodyLimit ?? BODY_LIMIT,
    strict: false,
    type: () => true,
    verify: (request, _response, buffer, encoding) => void sent.set(request, { buffer, encoding }),
  });
}

/** Refuses what the parser of JSON would change without a word: bytes that are no UTF-8, keys that stand twice, and
 * numbers that are too large. */
function assertSentAsRead(request: Request): void {
  const body = sent.get(request);
  if (body === undefined) return;
  sent.delete(request);
  if (body.encoding !== 'utf-8') {
    throw new AppError('unsupported_media_type', 'The body must be JSON in UTF-8 (RFC 8259).');
  }
  if (!isUtf8(body.buffer)) throw invalid('body', 'must be valid UTF-8', 'The body is not valid UTF-8.');
  const fault = jsonTextFault(body.buffer.toString());
  if (fault !== undefined) throw invalid(['body', fault.path].filter(Boolean).join('.'), fault.message);
}

function bytesLimit({ path, bodyType, bodyLimit }: AnyRoute): number {
  const isDeclared = bodyType === 'bytes' && bodyLimit !== undefined;
  if (!isDeclared) throw new Error(`${path} declares no bytes with a limit`);
  return bodyLimit;
}

/** A body of another type is refused by name, rather than read as an empty one. */
function expectedType(row: AnyRoute): RequestHandler {
  const [type, name] =
    row.bodyType === 'form'
      ? ['application/x-www-form-urlencoded', 'that of a form']
      : ['application/json', 'JSON'];
  return (request, _response, next) => {
    const hasBody =
      request.headers['transfer-encoding'] !== undefined ||
      Number(request.headers['content-length'] ?? 0) > 0;
    if (row.body !== undefined && hasBody && !request.is(row.bodyType === 'form' ? 'urlencoded' : 'json')) {
      next(new AppError('unsupported_media_type', `The body must be ${name}: send "Content-Type: ${type}".`));
      return;
    }
    next();
  };
}

const BROWSER_HEADERS = ['origin', 'sec-fetch-site', 'cookie'] as const;

function handle(row: AnyRoute, pipeline: Pipeline): RequestHandler {
  return async (request, response) => {
    const state = requestState(request);
    const input = {
      ...parseInput(row, request),
      signal: abortSignal(response),
      closed: closeOf(response),
      bearer: bearerToken(request),
      bytes: () => byteBody(request, bytesLimit(row)),
      cookies: parseCookies(request.headers.cookie ?? ''),
      isFromBrowser: BROWSER_HEADERS.some((name) => request.headers[name] !== undefined),
      reply: pendingReply(),
      once:
        row.idempotent === true && state.caller !== undefined
          ? onceOnly(request, state.caller.userId, request.body)
          : undefined,
    };
    const answer = await answerOf(row, state, input, pipeline);

    input.reply.apply(response);
    response.status(row.status ?? 200);
    if (answer instanceof OpenDownload || answer instanceof StreamAnswer) {
      await sendWhileAllowed(answer, response, { caller: state.caller, bearer: input.bearer }, pipeline);
    } else if (isBrowserAnswer(answer)) await answer.send(response);
    else if (answer instanceof RawJson) response.type('json').send(answer.text);
    else response.json(answer);
  };
}

/** A streamed answer can take hours. It is cut off when the caller loses the right to it. */
async function sendWhileAllowed(
  answer: OpenDownload | StreamAnswer,
  response: Response,
  { caller, bearer }: { caller: Caller | undefined; bearer: string | undefined },
  { watchRights }: Pipeline,
): Promise<void> {
  const watch =
    caller === undefined || bearer === undefined
      ? undefined
      : watchRights(caller, bearer, () => response.destroy());
  try {
    await answer.send(response);
  } finally {
    watch?.close();
  }
}

type Input = ReturnType<typeof parseInput> & {
  signal: AbortSignal;
  closed: Promise<void>;
  cookies: Record<string, string | undefined>;
  isFromBrowser: boolean;
  bearer: string | undefined;
  bytes: () => ByteBody;
  reply: ReturnType<typeof pendingReply>;
  once: OnceOnly | undefined;
};

async function answerOf(
  row: AnyRoute,
  state: RequestState,
  input: Input,
  pipeline: Pipeline,
): Promise<unknown> {
  const { agent, caller } = state;
  const { requestId, log, client, arrivedAt } = state;
  const base = { requestId, log, client, arrivedAt };
  if (agent !== undefined) {
    const within = transactions(row, pipeline, scopeOf(agent), (opened) => ({ ...base, agent, ...opened }));
    const ctx: DetachedAgentContext = { ...base, agent, withTenant: within };
    return signedIn(row, state, { ...input, ctx }, within, pipeline);
  }
  if (caller !== undefined) {
    const opened = transactions(row, pipeline, caller, (opening) => ({ ...base, caller, ...opening }));
    const limit = isExpensive(row, input.query) ? pipeline.expensive : undefined;
    const within = limited(limit, caller, opened, { signal: input.signal });
    const ctx: DetachedContext = { ...base, caller, withTenant: within };
    const answer = await signedIn(row, state, { ...input, ctx }, within, pipeline);
    if (!(answer instanceof Download)) return answer;
    // The rest of what is being sent waits for its turn and is not refused.
    return new OpenDownload(
      answer,
      limited(limit, caller, opened, { signal: input.signal, isPatient: true }),
    );
  }
  const ctx: PublicContext = { ...base, withSystem: (why, work) => withSystem(pipeline.db, why, work) };
  return shaped(row, await row.handler({ ...input, ctx, prepared: undefined }));
}

async function signedIn<C extends Context | AgentContext>(
  row: AnyRoute,
  state: RequestState,
  input: Input & { ctx: DetachedContext | DetachedAgentContext },
  within: (work: (ctx: C, recorded: Recorded) => Promise<unknown>) => Promise<unknown>,
  pipeline: Pipeline,
): Promise<unknown> {
  const prepared = await row.prepare?.(input);
  if (row.transaction) {
    return within((ctx, recorded) => audited(row, state, { ...input, ctx, prepared, recorded }, pipeline));
  }
  const raw = await row.handler({ ...input, prepared });
  // Nothing leaves before its entry is written.
  if (row.audit !== undefined && !isCovered(row, state, input, pipeline)) {
    await within((ctx, recorded) => recordEntries(row, state, { ...input, ctx, recorded }, raw, pipeline));
  }
  return shaped(row, raw);
}

type Opened = Pick<Context, 'tx' | 'afterCommit' | 'recordChange'>;
/** The change that the handler has recorded by `recordChange`. */
interface Recorded {
  changes?: Changes;
}

/** An agent sees the organization of its device: nothing narrower is cut by the database. */
function scopeOf({ orgId }: AgentCaller): TenantScope {
  return { scope: 'organization', userId: null, partnerId: null, orgAccess: 'listed', orgIds: [orgId] };
}

/** Returns a function that opens a transaction of the tenant, and runs the work that waited for its commit. */
function transactions<C>(
  row: AnyRoute,
  { db }: Pipeline,
  scope: TenantScope,
  contextOf: (opened: Opened) => C,
) {
  return async <T>(work: (ctx: C, recorded: Recorded) => PromiseLike<T>): Promise<T> => {
    const recorded: Recorded = {};
    const recordChange: Opened['recordChange'] = (before, after) => {
      recorded.changes = changesOf(before, after);
    };
    const afterwards: (() => void | Promise<void>)[] = [];
    const result = await withTenant(
      db,
      scope,
      (tx) =>
        work(contextOf({ tx, recordChange, afterCommit: (task) => void afterwards.push(task) }), recorded),
      { readOnly: row.method === 'get' && row.audit === undefined && row.unaudited === undefined },
    );
    for (const task of afterwards) await task();
    return result;
  };
}

type Within = <T>(work: (ctx: Context, recorded: Recorded) => PromiseLike<T>) => Promise<T>;

const isExpensive = ({ cost }: AnyRoute, query: unknown) =>
  (typeof cost === 'function' ? cost(query) : cost) === 'expensive' || isDeepPage(query);

/** If there is a limit, opens each transaction when it is the caller's turn. */
function limited(
  limit: ExpensiveWork | undefined,
  caller: Caller,
  opened: Within,
  options: { signal: AbortSignal; isPatient?: boolean },
): Within {
  if (limit === undefined) return opened;
  return (work) => limit.run(caller, () => opened(work), options);
}

type Audited = Input & { ctx: Context | AgentContext; recorded: Recorded };

async function audited(
  row: AnyRoute,
  state: RequestState,
  input: Audited & { prepared: unknown },
  pipeline: Pipeline,
): Promise<unknown> {
  const { ctx, once } = input;
  const before = once === undefined ? undefined : await takeKey(ctx.tx, once);
  if (before !== undefined) return before.answer;
  const raw = await row.handler(input);
  const parsed = shaped(row, raw);
  if (once !== undefined) await keepAnswer(ctx.tx, once, parsed);
  if (!isCovered(row, state, input, pipeline)) await recordEntries(row, state, input, raw, pipeline);
  return parsed;
}

async function recordEntries(
  row: AnyRoute,
  state: RequestState,
  input: Audited,
  raw: unknown,
  { audit, reads }: Pipeline,
): Promise<void> {
  if (row.audit === undefined) return;
  const { ctx, recorded } = input;
  const { action, resource: resourceType, note, alsoAs } = row.audit;
  const actor = 'agent' in ctx ? ctx.agent : ctx.caller;
  const source: unknown = raw instanceof AuditedJson ? raw.source : raw;
  const notes = [await note(source, input)].flat();
  const twice = alsoAs === undefined ? [] : notes.map((about) => ({ ...about, action: alsoAs }));
  const entries = [...notes, ...twice].map((about) => ({
    action,
    ...about,
    details: { ...about.details, ...recorded.changes },
    resourceType,
    actor,
    state,
  }));
  const [first] = entries;
  if (entries.length === 1 && first !== undefined) await audit.record(ctx.tx, first);
  else await audit.recordAll(ctx.tx, entries);
  ctx.afterCommit(() => {
    audit.committed();
    const read = readOf(row, state, input);
    if (read !== undefined) reads.cover(read);
  });
}

const isCovered = (row: AnyRoute, state: RequestState, input: Input, { reads }: Pipeline): boolean => {
  const read = readOf(row, state, input);
  return read !== undefined && reads.isCovered(read);
};

/** The same for all pages of a read by one caller; `undefined` if each request has an entry of its own. */
function readOf(row: AnyRoute, { caller }: RequestState, { params, query }: Input): string | undefined {
  if (row.audit?.coversPages !== true || caller === undefined) return undefined;
  return JSON.stringify([caller.apiKeyId ?? caller.userId, row.path, params, withoutPage(query ?? {})]);
}

/** The fields that the response lists, and no others. */
function shaped(row: AnyRoute, answer: unknown): unknown {
  if (answer instanceof RawJson || answer instanceof Download || isBrowserAnswer(answer)) return answer;
  return row.response.parse(answer);
}

/** For a patch of which every field may be left out: whether the body has any that the schema knows. */
function names(schema: z.ZodType, body: unknown): boolean {
  if (!(schema instanceof z.ZodObject) || typeof body !== 'object' || body === null) return true;
  const fields: Record<string, z.ZodType> = schema.shape;
  if (Object.values(fields).some((field) => !field.safeParse(undefined).success)) return true;
  return Object.keys(body).some((key) => Object.hasOwn(fields, key));
}

/** Path, query and body, parsed. A path that cannot be (a malformed id) names nothing: 404. All other issues: 400. */
function parseInput(row: AnyRoute, request: Request): { params: unknown; query: unknown; body: unknown } {
  if (row.body !== undefined) assertSentAsRead(request);
  const params = row.params?.safeParse(request.params);
  if (params?.success === false) throw notFound('Resource');
  const query = row.query?.safeParse(request.query);
  if (row.method === 'patch' && row.body !== undefined && !names(row.body, request.body)) throw noFields();
  const { method, body: schema } = row;
  const body = schema === undefined ? undefined : parseBody({ method, body: schema }, request.body ?? {});
  const issues: z.core.$ZodIssue[] = [];
  if (query?.success === false) issues.push(...at('query', query.error.issues));
  if (body?.success === false) issues.push(...at('body', body.error.issues));
  if (issues.length > 0) throw validationError(issues);
  return { params: params?.data, query: query?.data, body: body?.data };
}

function at(place: string, issues: readonly z.core.$ZodIssue[]): z.core.$ZodIssue[] {
  return issues.map((issue) => ({ ...issue, path: [place, ...issue.path] }));
}

function abortSignal(response: Response): AbortSignal {
  const controller = new AbortController();
  response.on('close', () => {
    if (!response.writableFinished) controller.abort();
  });
  return controller.signal;
}

const closeOf = (response: Response): Promise<void> =>
  response.closed ? Promise.resolve() : new Promise((resolve) => response.once('close', () => resolve()));

/** Collects headers and cookies until the answer is sure. */
function pendingReply(): Reply & { apply(response: Response): void } {
  const pending: ((response: Response) => void)[] = [];
  return {
    header: (name, value) => void pending.push((response) => response.setHeader(name, value)),
    cookie: (name: string, value: string, options: CookieOptions) =>
      void pending.push((response) =>
        response.cookie(name, value, {
          httpOnly: true,
          sameSite: options.sameSite ?? 'strict',
          secure: options.secure,
          path: options.path,
          maxAge: options.maxAgeMs,
        }),
      ),
    apply(response) {
      for (const step of pending) step(response);
    },
  };
}
