import { AppError } from './errors.ts';
import type { Logger } from './logger.ts';
import type { TenantScope } from './db/tenant-scope.ts';
import type { Tx } from './db/transaction.ts';

/** A signed-in person, or a program that acts for one by an API key. */
export interface Caller extends TenantScope {
  kind: 'user' | 'api_key';
  /** For an API key: the person who made it. */
  userId: string;
  /** Null for an API key. */
  sessionId: string | null;
  /** Null for a person. */
  apiKeyId: string | null;
  email: string;
  name: string;
  orgId: string | null;
  roleId: string;
  roleName: string;
  permissions: ReadonlySet<string>;
  mfa: boolean;
  /** Addresses that the partner's people may come from; empty: any. */
  ipAllowlist: readonly string[];
  /** When the credential ends by itself, if that is known. */
  validUntil?: Date;
}

/** A device's agent, as its token names it. */
export interface AgentCaller {
  kind: 'agent';
  deviceId: string;
  orgId: string;
  siteId: string;
  partnerId: string;
  /** The machine as it is recorded. */
  machine: {
    readonly osType: 'windows' | 'macos' | 'linux';
    readonly architecture: 'x64' | 'x86' | 'arm64';
    readonly autoUpdate: boolean;
    readonly canUpgrade: boolean;
  };
  /** Set for a device that waits for approval. */
  isPending?: true;
  /** Another id by which the agent names its device in paths. */
  enrolledAs?: string;
}

/** Where a request came from. */
export interface ClientInfo {
  ip: string;
  /** Whether that is surely the client's address, and not a proxy's or a made-up one. */
  trusted: boolean;
  /** Set if the peer looks like a proxy that is not configured: the client that it reports, which may be made up. */
  unnamedProxy?: { client: string | undefined };
  /** If one of our proxies names its client by something that is no address: what, and in which header. */
  unreadable?: { header: string; value: string };
  userAgent: string | null;
}

interface BaseContext {
  requestId: string;
  log: Logger;
  client: ClientInfo;
  /** When the request came, by `clock.monotonic()`. */
  arrivedAt: number;
}

/** First argument of every service function that works within a caller's tenant. */
export interface Context extends BaseContext {
  caller: Caller;
  tx: Tx;
  /** Runs once the transaction is committed: what others hear must not be rolled back. */
  afterCommit(task: () => void | Promise<void>): void;
  /**
   * Records the fields of an updated thing before and after the update. The audit entry of the route gets what
   * differs, with secrets masked. Every audited update calls this, whatever its method (test/contract/changes.test.ts).
   */
  recordChange(before: object, after: object): void;
}

/** For work that waits for something else than the database: it opens short transactions of its own. */
export interface DetachedContext extends BaseContext {
  caller: Caller;
  withTenant<T>(work: (ctx: Context) => PromiseLike<T>): Promise<T>;
}

/** The context of an agent's request: its transaction sees the organization of its device, and nothing else. */
export interface AgentContext extends BaseContext {
  agent: AgentCaller;
  tx: Tx;
  afterCommit(task: () => void | Promise<void>): void;
}

export interface DetachedAgentContext extends BaseContext {
  agent: AgentCaller;
  withTenant<T>(work: (ctx: AgentContext) => PromiseLike<T>): Promise<T>;
}

/** For routes without a sign-in. */
export interface PublicContext extends BaseContext {
  withSystem: WithSystem;
}

export type WithSystem = <T>(why: string, work: (tx: Tx) => PromiseLike<T>) => Promise<T>;

/** Whether the caller's role holds a permission such as `sites:write`. */
export function holds(permissions: ReadonlySet<string>, permission: string): boolean {
  const [resource] = permission.split(':');
  return permissions.has(permission) || permissions.has('*:*') || permissions.has(`${resource}:*`);
}

/**
 * Throws `forbidden` for a user of a partner who does not reach all its organizations. Everything that changes a partner
 * as a whole calls this, because the change also counts in the organizations that the user does not reach
 * (test/contract/whole-partner.test.ts).
 * @param act  what is refused, such as `change the settings of the partner`
 */
export function assertActsForWholePartner(
  { scope, orgAccess }: Pick<Caller, 'scope' | 'orgAccess'>,
  act: string,
): void {
  if (scope === 'partner' && orgAccess !== 'all') {
    throw new AppError('forbidden', `Only users with access to all organizations can ${act}.`);
  }
}
