import { expect } from 'chai';
import { eventually } from '../../../../support/eventually.ts';
import { asOwner } from '../../../../support/test-postgres.ts';
import { effectsIn, type Effects } from './effects.ts';
import type { ServerProgram } from './server-program.ts';

/** Commands that a test has given, and what became of them: in the ledger, and on the machine. */
export interface Work {
  effects: Effects;
  /** Asks a server for a script on the device; a held one ends when the gate opens. */
  order(server: ServerProgram, deviceId: string, options?: { held?: boolean }): Promise<string>;
  /** In what state each is, in the order given. */
  states(): Promise<string[]>;
  /** Waits until all have ended: how each did, all its ends, and how often its effect happened. */
  results(): Promise<Result[]>;
  /** Nothing has happened since they were last looked at. */
  expectUnchanged(): Promise<void>;
}

export interface Result {
  ends: string[];
  effects: number;
}
export const DONE_ONCE: Result = { ends: ['succeeded'], effects: 1 };

const FINAL = ['succeeded', 'failed', 'cancelled', 'timed_out', 'expired'];
const SOON_MS = 40_000;

export function workIn(folder: string, { ownerUrl, token }: { ownerUrl: string; token: string }): Work {
  const effects = effectsIn(folder);
  const given: { commandId: string; effectId: string }[] = [];
  const ids = () => given.map(({ commandId }) => commandId);

  async function states(): Promise<string[]> {
    const rows = await asOwner<{ id: string; status: string }>(
      ownerUrl,
      'select id, status from commands where id = any($1::uuid[])',
      [ids()],
    );
    const byId = new Map(rows.map(({ id, status }) => [id, status]));
    return ids().map((id) => byId.get(id) ?? 'missing');
  }

  async function results(): Promise<Result[]> {
    await eventually(states, (all) => all.every((state) => FINAL.includes(state)), SOON_MS);
    const ends = await asOwner<{ command_id: string; to_status: string }>(
      ownerUrl,
      `select command_id, to_status from command_transitions
        where command_id = any($1::uuid[]) and to_status = any($2::text[]) order by seq`,
      [ids(), FINAL],
    );
    const happened = await effects.happened();
    const known = new Set(given.map(({ effectId }) => effectId));
    expect(
      happened.filter((id) => !known.has(id)),
      'effects that nobody asked for',
    ).to.deep.equal([]);
    return given.map(({ commandId, effectId }) => ({
      ends: ends.filter(({ command_id }) => command_id === commandId).map(({ to_status }) => to_status),
      effects: happened.filter((id) => id === effectId).length,
    }));
  }
  let last: Result[] = [];

  return {
    effects,
    async order(server, deviceId, options) {
      const { id: effectId, body } = effects.script(options);
      const answer = await server.call('POST', `/devices/${deviceId}/commands`, { token, body });
      expect(answer.status, JSON.stringify(answer.body)).to.equal(202);
      given.push({ commandId: answer.body.id, effectId });
      return answer.body.id;
    },
    states,
    async results() {
      last = await results();
      return last;
    },
    async expectUnchanged() {
      expect(await results(), 'what commands have come to, later').to.deep.equal(last);
    },
  };
}
