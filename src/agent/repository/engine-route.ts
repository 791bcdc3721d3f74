import path from 'node:path';
import type { Destination } from '../../engine/index.ts';
import type { Network } from '../os/network/network.ts';
import { replaceFile } from '../os/files/private-file.ts';

/** How restic reaches a destination. */
export interface EngineRoute {
  /** With the authorities of the agent, where the administrator has added some. */
  destination: Destination;
  /** The address of a proxy on this machine. */
  proxy: string | undefined;
  close: () => void;
}

/**
 * The way of the agent, for restic: through its proxy and with its authorities. A proxy is used for encrypted
 * connections; others are for laboratories.
 */
export async function openRoute(
  network: Network,
  destination: Destination,
  folder: string,
): Promise<EngineRoute> {
  if (destination.type === 'local') return { destination, proxy: undefined, close: () => {} };
  const url = new URL(destination.type === 's3' ? destination.endpoint : destination.url);
  const { proxy, caFile } = network.describe(url);
  const relay = proxy === null || url.protocol !== 'https:' ? undefined : await network.relay(url);
  return {
    destination:
      caFile === null ? destination : { ...destination, caFile: await allAuthorities(network, folder) },
    proxy: relay?.address,
    close: () => relay?.close(),
  };
}

/** restic trusts either the authorities of the system or those of a file, so the file has both. */
async function allAuthorities(network: Network, folder: string): Promise<string> {
  const file = path.join(folder, 'authorities.pem');
  const handle = await replaceFile(file, Buffer.from(network.authorities().join('\n')));
  await handle.close();
  return file;
}
