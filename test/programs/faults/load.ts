import { newId } from '../../../src/platform/ids.ts';
import { call, type Answer, type CallOptions } from '../../support/test-app.ts';
import type { Effects } from '../e2e/faults/support/effects.ts';
import type { Cluster } from './cluster.ts';
import { SERVERS } from './schedule.ts';
import { expectedRows } from './simulated-agents.ts';
import type { AnsweredQuery, Post } from './violations.ts';

/** Commands and live queries at a steady pace, from people who ask whichever server is next. */
export interface Load {
  posts: Post[];
  queries: AnsweredQuery[];
  /** How often each kind of request was answered how. */
  counts: Map<string, number>;
  /** Starts nothing more, and waits until what was started has an answer. */
  stop(): Promise<void>;
}

export interface LoadOptions {
  cluster: Cluster;
  token: () => string;
  effects: Effects;
  /** May be given commands. */
  deviceIds: readonly string[];
  /** Answer live queries with the rows that the suite expects. */
  queriedIds: readonly string[];
  commandsPerSecond: number;
  queriesPerSecond: number;
}

const REQUEST_MS = 12_000;
const TRIES = 8;
const AGAIN_MS = 1000;
/** Of the posts, each so many-th is posted again although it was acknowledged. */
const REPEATED_EACH = 5;

export function startLoad(options: LoadOptions): Load {
  const { cluster, token, effects, deviceIds, queriedIds, commandsPerSecond, queriesPerSecond } = options;
  const posts: Post[] = [];
  const queries: AnsweredQuery[] = [];
  const counts = new Map<string, number>();
  const underWay = new Set<Promise<void>>();
  let isStopping = false;
  let turn = 0;

  const count = (what: string) => void counts.set(what, (counts.get(what) ?? 0) + 1);
  const next = <T>(all: readonly T[]): T => all[turn++ % all.length] as T;
  const ask = async (what: string, method: string, path: string, more: CallOptions = {}) => {
    const answer: Answer | undefined = await call(`${cluster.urlOf(next(SERVERS))}/api/v1${path}`, method, {
      token: token(),
      signal: AbortSignal.timeout(REQUEST_MS),
      ...more,
      headers: { ...more.headers, connection: 'close' },
    }).catch(() => undefined);
    count(`${what} ${answer?.status ?? 'without an answer'}`);
    return answer;
  };

  async function order(number: number): Promise<void> {
    const { id: effectId, body } = effects.script();
    const post: Post = { key: newId(), effectId, acknowledged: [] };
    posts.push(post);
    const deviceId = next(deviceIds);
    const headers = { 'idempotency-key': post.key };
    const wanted = number % REPEATED_EACH === 0 ? 3 : 1;
    for (let tries = 0; tries < TRIES && post.acknowledged.length < wanted; tries++) {
      if (tries > 0 && isStopping) return;
      const answer = await ask('command', 'POST', `/devices/${deviceId}/commands`, { body, headers });
      if (answer?.status === 202) post.acknowledged.push(String(answer.body.id));
      else await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
  }
  async function query(): Promise<void> {
    const marker = newId();
    const deviceId = next(queriedIds);
    const answer = await ask(
      'query',
      'GET',
      `/devices/${deviceId}/eventlogs/Suite/events?text=${marker}&limit=10`,
    );
    if (answer?.status !== 200) return;
    const rows = (answer.body.data as { message: unknown }[]).map(({ message }) => String(message));
    queries.push({ marker, rows, expected: expectedRows(deviceId, marker) });
  }

  const start = (perSecond: number, work: (number: number) => Promise<void>) => {
    let number = 0;
    return setInterval(() => {
      const one = work(++number).finally(() => underWay.delete(one));
      underWay.add(one);
    }, 1000 / perSecond);
  };
  const timers = [start(commandsPerSecond, order), start(queriesPerSecond, query)];
  return {
    posts,
    queries,
    counts,
    async stop() {
      isStopping = true;
      for (const timer of timers) clearInterval(timer);
      await Promise.all(underWay);
    },
  };
}
