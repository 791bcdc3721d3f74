import { z } from 'zod';
import type { CommandIo } from '../io.ts';
import { endsAll } from './act.ts';
import { type Api, apiOf } from './api.ts';
import { createOutput } from './output.ts';
import { EXIT, profileNamed, RemoteFailure } from './profiles.ts';

/** Cancels work by its ids: one that cannot be cancelled stops none of the others. */

interface Connection {
  profile?: string;
  json?: boolean;
}

/** `muster jobs cancel <id...>` */
export const cancelJobs = (io: CommandIo, ids: readonly string[], options: Connection): Promise<number> =>
  cancelEach(io, ids, options, async (api, id) => {
    const { status } = await api.post(`/commands/${id}/cancel`, z.object({ status: z.string() }), {});
    return { status, said: status === 'cancelled' ? 'cancelled' : 'its device was asked to stop it' };
  });

/** `muster scripts cancel <run...>` */
export const cancelRuns = (io: CommandIo, ids: readonly string[], options: Connection): Promise<number> =>
  cancelEach(io, ids, options, async (api, id) => {
    const { state: status } = await api.post(
      `/script-runs/${id}/cancel`,
      z.object({ state: z.string() }),
      {},
    );
    return { status, said: 'cancelled where it had not begun; the other devices were asked to stop it' };
  });

async function cancelEach(
  io: CommandIo,
  ids: readonly string[],
  options: Connection,
  cancel: (api: Api, id: string) => Promise<{ status: string; said: string }>,
): Promise<number> {
  const output = createOutput(io, options);
  const api = apiOf(await profileNamed(io, options.profile));
  let isWhole = true;
  for (const id of new Set(ids)) {
    try {
      const { status, said } = await cancel(api, id);
      if (output.isJson) output.json({ id, ok: true, status });
      else output.remark(`${id}: ${said}`);
    } catch (error) {
      if (!(error instanceof RemoteFailure) || endsAll(error)) throw error;
      isWhole = false;
      if (output.isJson) output.json({ id, ok: false, message: error.message });
      else output.remark(`${id}: ${error.message}`);
    }
  }
  return isWhole ? 0 : EXIT.finding;
}
