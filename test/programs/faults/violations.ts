/** What a run has seen, and what of it must never be. Pure, so that tests can plant each violation. */

/** A request for a command, with all its repetitions: one Idempotency-Key, one effect. */
export interface Post {
  key: string;
  effectId: string;
  /** The id of each answer 202 to it. */
  acknowledged: string[];
}

/** A command as the ledger has it when everything is at rest. */
export interface LedgerEntry {
  id: string;
  effectId: string;
  status: string;
  /** The final states it went to; one, where all is well. */
  ends: string[];
}

/** A live query that was answered with 200. */
export interface AnsweredQuery {
  marker: string;
  rows: string[];
  /** The rows that the device gives to this marker, and to no other one. */
  expected: string[];
}

/** Who is online in the eyes of one reader, at a moment when nothing changed any more. */
export interface View {
  reader: string;
  moment: string;
  online: string[];
  /** Who really was connected. */
  connected: string[];
}

export interface Level {
  what: string;
  before: number;
  after: number;
  most: number;
}

export interface RunRecord {
  posts: Post[];
  ledger: LedgerEntry[];
  /** The id of each effect, once for each time that it happened. */
  effects: string[];
  queries: AnsweredQuery[];
  views: View[];
  /** What a dashboard was sent that no dashboard may be sent, such as a number left out. */
  frameFaults: string[];
  /** Servers that ended without having been killed, and errors that nobody caught. */
  serverFaults: string[];
  audit: { faults: string[]; commandIds: string[] };
  levels: Level[];
  /** What the run itself waited for in vain. */
  overdue: string[];
}

export interface Violation {
  rule: string;
  detail: string;
}

const FINAL = new Set(['succeeded', 'failed', 'cancelled', 'timed_out', 'expired']);

export function violations(record: RunRecord): Violation[] {
  const found: Violation[] = [];
  const add = (rule: string, detail: string) => void found.push({ rule, detail });

  commandViolations(record, add);
  effectViolations(record, add);
  for (const { marker, rows, expected } of record.queries) {
    if (JSON.stringify(rows) !== JSON.stringify(expected)) {
      add('a live query gets its own answer, whole', `query ${marker} was answered ${JSON.stringify(rows)}`);
    }
  }
  for (const view of record.views) {
    const seen = new Set(view.online);
    const connected = new Set(view.connected);
    const ghosts = view.online.filter((id) => !connected.has(id));
    const missing = view.connected.filter((id) => !seen.has(id));
    const where = `${view.reader}, ${view.moment}`;
    if (ghosts.length > 0) add('nobody is shown online who is not connected', `${where}: ${ghosts.join()}`);
    if (missing.length > 0) add('everybody who is connected is shown online', `${where}: ${missing.join()}`);
  }
  auditViolations(record, add);
  for (const fault of record.frameFaults) add('dashboards are sent whole sequences', fault);
  for (const fault of record.serverFaults) add('servers end only when they are killed', fault);
  for (const { what, before, after, most } of record.levels) {
    const isFlat = after <= most;
    // Neither where there is no number to compare.
    if (!isFlat) add('memory and connections stay flat', `${what}: ${before} → ${after}, at most ${most}`);
  }
  for (const what of record.overdue) add('everything is at rest soon after the last fault', what);
  return found;
}

type Add = (rule: string, detail: string) => void;

function commandViolations({ posts, ledger }: RunRecord, add: Add): void {
  const byId = new Map(ledger.map((entry) => [entry.id, entry]));
  const idsByEffect = new Map<string, string[]>();
  for (const { id, effectId } of ledger) {
    idsByEffect.set(effectId, [...(idsByEffect.get(effectId) ?? []), id]);
  }
  for (const { key, effectId, acknowledged } of posts) {
    const ids = new Set([...acknowledged, ...(idsByEffect.get(effectId) ?? [])]);
    if (ids.size > 1) add('one Idempotency-Key makes one command', `key ${key}: ${[...ids].join()}`);
    for (const id of new Set(acknowledged)) {
      if (!byId.has(id)) add('no acknowledged command is lost', `command ${id} of key ${key}`);
    }
  }
  // Also those whose acknowledgement was lost.
  for (const { id, status, ends } of ledger) {
    if (!FINAL.has(status)) add('no command is left open', `command ${id} is ${status}`);
    else if (ends.length !== 1 || ends[0] !== status) {
      add('a command ends once', `command ${id} is ${status} and has ended as ${ends.join() || 'nothing'}`);
    }
  }
}

function effectViolations({ posts, ledger, effects }: RunRecord, add: Add): void {
  const counts = new Map<string, number>();
  for (const id of effects) counts.set(id, (counts.get(id) ?? 0) + 1);
  const wanted = new Set(posts.map(({ effectId }) => effectId));
  for (const [id, count] of counts) {
    if (count > 1) add('no effect happens twice', `effect ${id} happened ${count} times`);
    if (!wanted.has(id)) add('no effect happens that nobody asked for', `effect ${id}`);
  }
  for (const { id, effectId, status } of ledger) {
    if (status === 'succeeded' && !counts.has(effectId)) {
      add('what succeeded has happened', `command ${id} succeeded without its effect`);
    }
  }
}

function auditViolations({ audit, ledger }: RunRecord, add: Add): void {
  for (const fault of audit.faults) add('the audit trail is intact', fault);
  const entries = new Map<string, number>();
  for (const id of audit.commandIds) entries.set(id, (entries.get(id) ?? 0) + 1);
  for (const { id } of ledger) {
    const count = entries.get(id) ?? 0;
    if (count !== 1) add('each command has one audit entry', `command ${id} has ${count}`);
  }
}
