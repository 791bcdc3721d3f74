import type { Caller, ClientInfo } from '../../platform/context.ts';

export interface People {
  /** The caller that a token identifies. Throws when the token is no longer valid. */
  authenticate(token: string, client: ClientInfo): Promise<Caller>;
  /** Counts one use of an API key. Throws `rate_limited` over its limit. */
  countUse(caller: Caller): Promise<void>;
}

/** A person's read of log entries from devices. */
export interface LogRead {
  caller: Caller;
  client: ClientInfo;
  deviceIds: readonly string[];
  /** `live`: entries that exist now; `tail`: also entries that are written later. */
  how: 'live' | 'tail';
  /** The log and the conditions on its entries. */
  conditions: object;
}

export interface LogReads {
  /** Adds the read to the audit trail. The entry is written shortly afterwards; callers do not wait for it. */
  record(read: LogRead): void;
}
