import { call } from '../../../api/index.ts';
import { type Given, type Started, startedOrRefused } from '../../scripts/index.ts';

/** A script that is run on devices: a saved one, or one that is written for this once. */
export type ScriptToRun =
  | { kind: 'saved'; id: string; given: Given }
  | {
      kind: 'written';
      language: 'bash' | 'powershell' | 'python' | 'cmd';
      content: string;
      timeoutSeconds: number;
    };

/** How many devices one request of each kind may name. */
export const SCRIPT_DEVICES_MAX = 500;
export const BULK_DEVICES_MAX = 1000;

/** Starts it on each device that can run it, and says which cannot. The key makes a repeated click start it once. */
export function runScript(
  script: ScriptToRun,
  deviceIds: readonly string[],
  idempotencyKey: string,
): Promise<Started> {
  return startedOrRefused(request(script, [...deviceIds], idempotencyKey));
}

function request(script: ScriptToRun, deviceIds: string[], idempotencyKey: string): Promise<Started> {
  if (script.kind === 'saved') {
    const { id, given } = script;
    const body = { deviceIds, ...given };
    return call('POST /scripts/{id}/execute', { params: { id }, body }, { idempotencyKey });
  }
  const { language, content, timeoutSeconds } = script;
  const body = { deviceIds, type: 'script.run' as const, payload: { language, content, timeoutSeconds } };
  return call('POST /devices/bulk/commands', { body }, { idempotencyKey });
}
