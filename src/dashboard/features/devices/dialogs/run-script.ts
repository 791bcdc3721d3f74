import { z } from 'zod';
import { ApiError, call, type Command } from '../../../api/index.ts';
import type { Given } from '../../scripts/index.ts';

/** A script that is run on devices: a saved one, or one that is written for this once. */
export type ScriptToRun =
  | { kind: 'saved'; id: string; given: Given }
  | { kind: 'written'; language: 'bash' | 'powershell' | 'python'; content: string; timeoutSeconds: number };

const Refusals = z.array(z.object({ deviceId: z.string(), code: z.string(), message: z.string() }));
export interface Started {
  commands: readonly Command[];
  refused: z.infer<typeof Refusals>;
}

/** How many devices one request of each kind may name. */
export const SCRIPT_DEVICES_MAX = 500;
export const BULK_DEVICES_MAX = 1000;

/** Starts it on each device that can run it, and says which cannot. The key makes a repeated click start it once. */
export async function runScript(
  script: ScriptToRun,
  deviceIds: readonly string[],
  idempotencyKey: string,
): Promise<Started> {
  try {
    if (script.kind === 'saved') {
      const { id, given } = script;
      const body = { deviceIds: [...deviceIds], ...given };
      return await call('POST /scripts/{id}/execute', { params: { id }, body }, { idempotencyKey });
    }
    const { language, content, timeoutSeconds } = script;
    return await call(
      'POST /devices/bulk/commands',
      {
        body: {
          deviceIds: [...deviceIds],
          type: 'script.run',
          payload: { language, content, timeoutSeconds },
        },
      },
      { idempotencyKey },
    );
  } catch (error) {
    return { commands: [], refused: refusalsIn(error) };
  }
}

/** Where no device can do it, the server refuses the request and names each of them. */
export function refusalsIn(error: unknown): Started['refused'] {
  const refused = Refusals.safeParse(error instanceof ApiError ? error.details : undefined);
  if (refused.success && refused.data.length > 0) return refused.data;
  throw error;
}
