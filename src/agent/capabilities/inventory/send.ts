import type { Inventory } from '../../../protocol/index.ts';
import { post, type ServerAccess, type ServerAnswer } from '../../core/server/server-call.ts';

/** Returns a function that sends the inventories of one device to its server. */
export const sendInventoryTo =
  (access: ServerAccess, deviceId: string) =>
  async (inventory: Inventory, token: string, signal: AbortSignal): Promise<ServerAnswer> =>
    post(access, `/agents/${encodeURIComponent(deviceId)}/inventory`, {
      token,
      body: inventory,
      compress: true,
      signal,
    });
