import type { Inventory } from '../../../protocol/index.ts';
import { post, type ServerAnswer } from '../../core/server/server-call.ts';

/** Sends inventories of one device to its server. */
export const sendInventoryTo =
  (server: string, deviceId: string) =>
  async (inventory: Inventory, token: string, signal: AbortSignal): Promise<ServerAnswer> =>
    post(server, `/agents/${encodeURIComponent(deviceId)}/inventory`, {
      token,
      body: inventory,
      isPacked: true,
      signal,
    });
