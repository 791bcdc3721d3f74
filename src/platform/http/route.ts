import type { z } from 'zod';
import type {
  AgentContext,
  ClientInfo,
  Context,
  DetachedAgentContext,
  DetachedContext,
  PublicContext,
} from '../context.ts';
import type { Scope } from '../db/tenant-scope.ts';
import type { ErrorCode } from '../errors.ts';
import type { BrowserAnswer, Download } from './file-answer.ts';
import type { ByteBody } from './stream-answer.ts';

/**
 * A response body that the database has already serialized. It is sent unchanged, because parsing and serializing it
 * again would cost more than the rest of the request. The caller guarantees that it matches the route's response
 * schema; see `rowAsJson`.
 */
export class RawJson {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** A serialized response together with the value that the route's audit note is built from. */
export class AuditedJson<Source> extends RawJson {
  readonly source: Source;

  constructor(text: string, source: Source) {
    super(text);
    this.source = source;
  }
}

/**
 * Who may call a route. It cannot be left out. `signed-in`: a person, or a program with an API key; `person`: a person
 * only, as for whatever manages passwords, sessions and keys; `agent`: the agent of the device that `:id` names, and
 * no person or key at all.
 */
export type Access =
  | 'public'
  | 'signed-in'
  | 'person'
  | 'agent'
  | {
      scopes: readonly Scope[];
      permission?: string;
      /** API keys are refused. */
      person?: true;
      /** The session needs a second factor, given at the sign-in or added later. */
      mfa?: true;
    };

/** The access of routes that people and their keys may call. */
export type PeopleAccess = Exclude<Access, 'public' | 'agent'>;

type ContextFor<A extends Access, T extends boolean> = A extends 'public'
  ? PublicContext
  : A extends 'agent'
    ? T extends false
      ? DetachedAgentContext
      : AgentContext
    : T extends false
      ? DetachedContext
      : Context;

export type Base = '/' | '/api/v1';

/** In Express form: `/orgs/sites/:id`. An agent's names its device. */
type PathFor<A extends Access> = A extends 'agent' ? `/agents/:id/${string}` : string;

type Parsed<S extends z.ZodType | undefined> = S extends z.ZodType ? z.output<S> : undefined;

/**
 * The headers and cookies of an answer. They are applied when the answer is sent, so a rolled-back one sets nothing.
 */
export interface Reply {
  header(name: string, value: string): void;
  cookie(name: string, value: string, options: CookieOptions): void;
}
export interface CookieOptions {
  path: string;
  maxAgeMs: number;
  secure: boolean;
  /** `lax` for a cookie that has to come along when another site sends the browser here; `strict` when absent. */
  sameSite?: 'lax';
}

export interface HandlerInput<A extends Access, T extends boolean, P, Q, B, X = undefined>
  extends RequestInput<A, T, P, Q, B> {
  /** The result of `prepare`. */
  prepared: X;
}

interface RequestInput<A extends Access, T extends boolean, P, Q, B> {
  ctx: ContextFor<A, T>;
  params: P;
  query: Q;
  body: B;
  /** Aborted when the client goes away before it has its answer. */
  signal: AbortSignal;
  /** Resolves when the answer was sent, or its client has gone: for what is held until then. */
  closed: Promise<void>;
  reply: Reply;
  cookies: Readonly<Record<string, string | undefined>>;
  /** The request names the page that sends it, or brings cookies: what every browser does, and API clients do not. */
  isFromBrowser: boolean;
  /** The bearer token as sent, also on public routes, where it is not checked. */
  bearer: A extends 'agent' ? string : string | undefined;
  /** For a row with `bodyType: 'bytes'`: its body, unread. Throws if the client's headers do not say what it is. */
  bytes: () => ByteBody;
}

/** The action and its subject for the audit trail; the actor, the time and the address are known. */
export interface AuditNote {
  /** For a row that does one of several things: which it did. By default the row's own action. */
  action?: string;
  orgId?: string | null;
  partnerId?: string | null;
  resourceId?: string;
  resourceName?: string;
  details?: Record<string, unknown>;
}

type Notes = AuditNote | AuditNote[];

interface RouteBase<
  A extends Access,
  P extends z.ZodType | undefined,
  Q extends z.ZodType | undefined,
  B extends z.ZodType | undefined,
  R extends z.ZodType,
  I extends true | undefined = true | undefined,
> {
  method: 'get' | 'post' | 'put' | 'patch' | 'delete';
  path: PathFor<A>;
  /** Below which the path stands; `/api/v1` when absent. */
  bases?: readonly Base[];
  summary: string;
  description?: string;
  access: A;
  params?: P;
  query?: Q;
  body?: B;
  /** `form` for a body that the form of a web page sends (application/x-www-form-urlencoded); `bytes` for a file, which
   * has no schema and which the handler reads as it arrives; JSON when absent. */
  bodyType?: 'form' | 'bytes';
  /** Largest body in bytes (default 100 kB). A row that takes bytes has to count along: see `ByteBody`. */
  bodyLimit?: number;
  status?: 200 | 201 | 202;
  /** The route redirects the browser and never sends a body; its `response` is `NoBody`. */
  redirects?: true;
  /**
   * For a row whose statements may take long: `expensive`, or a function that decides it for a request. Its
   * transactions count in the share of the pool that a person and a partner may hold (docs/decisions/rate-limits.md).
   */
  cost?: 'expensive' | ((query: Parsed<Q>) => 'expensive' | 'cheap');
  /** Throws if this server does not offer the route, or does not offer it to this client any more: before anyone
   * signs in and anything of the body is read. */
  before?(client: ClientInfo): void | Promise<void>;
  /**
   * Makes work: the same `Idempotency-Key` with the same request gets the first answer again, and does nothing. That
   * answer is stored, so it is neither text that is ready to be sent nor a download.
   */
  idempotent?: I;
  /** For a row of agents: devices that wait for approval may use it as well. */
  forPending?: true;
  /** For a row that may change something: why it has no `audit`. */
  unaudited?: string;
  /** Codes beside those that every route of its kind can answer, for the documentation. */
  errors?: readonly ErrorCode[];
  response: R;
  /** Successful answers with another status, for the documentation. */
  otherAnswers?: Readonly<Record<number, { description: string; schema: z.ZodType }>>;
  /** Media types of the answer, if JSON is not the only one. */
  media?: readonly string[];
}

/** Answers that cannot be stored, which only rows without idempotency keys may return. */
type Unstored<I, Answer> = I extends true ? never : Answer;

export interface RouteDeclaration<
  A extends Access,
  T extends boolean,
  P extends z.ZodType | undefined,
  Q extends z.ZodType | undefined,
  B extends z.ZodType | undefined,
  R extends z.ZodType,
  H extends z.input<R>,
  X,
  I extends true | undefined,
> extends RouteBase<A, P, Q, B, R, I> {
  /** False for routes that wait for a device or do no database work in one piece: see `DetachedContext`. */
  transaction?: T;
  /** Runs before the transaction is opened, for what takes long without the database: passwords are hashed here, and
   * Redis is asked. Whether what it read still holds is the handler's to see. */
  prepare?(input: RequestInput<A, false, Parsed<P>, Parsed<Q>, Parsed<B>>): PromiseLike<X>;
  /** The result may hold more fields than `response` lists: the rest is for the audit note, and is not sent. */
  handler(
    input: HandlerInput<A, T, Parsed<P>, Parsed<Q>, Parsed<B>, X>,
  ):
    | PromiseLike<H | Unstored<I, AuditedJson<H> | RawJson | Download | BrowserAnswer>>
    | H
    | Unstored<I, RawJson | Download | BrowserAnswer>;
  /** The action recorded in the handler's transaction, such as `site.create`. Stands behind `handler`, whose answer
   * types the note. */
  audit?: {
    action: string;
    resource: string;
    /** For a route that sends customers' data out: each entry is written under this action too, which the compliance
     * report counts (SPEC 6). */
    alsoAs?: 'data.export' | 'data.access';
    /**
     * For a read: its further pages, and the same read by the same caller within ten minutes, have no entry of their
     * own.
     */
    coversPages?: true;
    /** Several if more than one organization is concerned: each has an entry of its own. None if this time there is
     * nothing to note. Of a row without a transaction, `ctx` has the one in which the entry is written. */
    note: (
      answer: H,
      input: { ctx: ContextFor<A, true>; params: Parsed<P>; query: Parsed<Q>; body: Parsed<B> },
    ) => Notes | Promise<Notes>;
  };
}

/** The element of the route table. Its schemas and handler agree by construction in `route`; here they are erased. */
export interface AnyRoute
  extends Omit<
    RouteBase<Access, z.ZodType | undefined, z.ZodType | undefined, z.ZodType | undefined, z.ZodType>,
    'cost'
  > {
  cost?: 'expensive' | ((query: unknown) => 'expensive' | 'cheap');
  transaction: boolean;
  audit?: {
    action: string;
    resource: string;
    alsoAs?: 'data.export' | 'data.access';
    coversPages?: true;
    note: (
      answer: unknown,
      input: { ctx: Context | AgentContext; params: unknown; query: unknown; body: unknown },
    ) => Notes | Promise<Notes>;
  };
  prepare?(input: RequestInput<Access, boolean, unknown, unknown, unknown>): PromiseLike<unknown>;
  handler(input: HandlerInput<Access, boolean, unknown, unknown, unknown, unknown>): unknown;
}

/** Declares one endpoint: from this row come routing, authorisation, validation, types, OpenAPI, audit and tests. */
export function route<
  const A extends Access,
  R extends z.ZodType,
  P extends z.ZodType | undefined = undefined,
  Q extends z.ZodType | undefined = undefined,
  B extends z.ZodType | undefined = undefined,
  T extends boolean = A extends 'public' ? false : true,
  H extends z.input<R> = z.input<R>,
  X = undefined,
  I extends true | undefined = undefined,
>(declaration: RouteDeclaration<A, T, P, Q, B, R, H, X, I>): AnyRoute {
  // The one cast that erases a row's types so that rows of all shapes can stand in one array.
  return {
    ...declaration,
    transaction: declaration.transaction ?? declaration.access !== 'public',
  } as unknown as AnyRoute;
}

/** A feature's rows under the heading that the documentation gives them. */
export interface RouteGroup {
  name: string;
  description: string;
  routes: readonly AnyRoute[];
}
