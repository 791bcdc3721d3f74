import { readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { newId } from '../../../../../src/platform/ids.ts';

/** What scripts have really done on the machine: each adds one line with an id of its own to a log. */
export interface Effects {
  /** The body of a command whose effect is the line `id`; one that is held ends when the gate opens. */
  script(options?: { held?: boolean }): { id: string; body: object };
  /** The ids, once for each time that an effect happened. */
  happened(): Promise<string[]>;
  openGate(): Promise<void>;
  closeGate(): Promise<void>;
}

/** A script whose agent was killed does not stay for ever: it ends with the gate, with the test, or by itself. */
const CONTENT = `echo "$PARAM_ID" >> "$PARAM_LOG"
[ "$PARAM_HELD" = yes ] || exit 0
for try in $(seq 600); do { [ -e "$PARAM_GATE" ] || [ ! -e "$PARAM_LOG" ]; } && exit 0; sleep 0.1; done
exit 1`;

export function effectsIn(folder: string): Effects {
  const log = path.join(folder, 'effects.log');
  const gate = path.join(folder, 'gate');
  return {
    script({ held = false } = {}) {
      const id = newId();
      const parameters = { ID: id, LOG: log, GATE: gate, HELD: held ? 'yes' : 'no' };
      const payload = { language: 'bash', content: CONTENT, parameters, timeoutSeconds: 60 };
      return { id, body: { type: 'script.run', payload } };
    },
    async happened() {
      const text = await readFile(log, 'utf8').catch(() => '');
      return text.split('\n').filter((line) => line !== '');
    },
    openGate: () => writeFile(gate, ''),
    closeGate: () => rm(gate, { force: true }),
  };
}
