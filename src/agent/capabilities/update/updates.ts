import { z } from 'zod';
import {
  type HeartbeatAck,
  RELEASE_KEYS_MAX,
  ReleaseKey,
  UPGRADE_CAPABILITY,
} from '../../../protocol/index.ts';
import type { SendStatus } from '../../core/connection/answer-channel.ts';
import { get, type ServerAccess } from '../../core/server/server-call.ts';
import type { WatchdogLink } from '../../core/supervision/watchdog-link.ts';
import { extendTrust } from '../../os/installation/trusted-keys.ts';
import { isSecureServer } from '../../os/network/secure-server.ts';
import { bringDownload } from './download.ts';
import { StatusSender } from './status-sender.ts';
import { UpdateFault } from './update-fault.ts';
import { type RunningWork, Updater } from './updater.ts';

const KeysAnswer = z.object({ keys: z.array(ReleaseKey).max(RELEASE_KEYS_MAX) });

export interface Updates {
  readonly capabilities: readonly string[];
  /** More for the heartbeat. */
  facts(): { watchdogVersion: string };
  connected(send: SendStatus): void;
  acknowledged(answer: HeartbeatAck): void;
  stop(): Promise<void>;
}

/** The upgrades of an agent that is run by a watchdog, as its session needs them. */
export function openUpdates(parts: {
  dataDir: string;
  access: ServerAccess;
  link: WatchdogLink;
  work: RunningWork;
  settings: { readonly autoUpdate: boolean; readonly insecureHttp: boolean };
  warn: (message: string) => void;
}): Updates {
  const { dataDir, access, link, work, settings, warn } = parts;
  const statuses = new StatusSender(dataDir, warn);
  const updater = new Updater({
    dataDir,
    link,
    work,
    statuses,
    isAutomatic: () => settings.autoUpdate,
    // Only where the server itself is reached so, which its administrator has allowed.
    allowsHttp: !isSecureServer(access.server) && settings.insecureHttp,
    download: (wanted) => bringDownload(access.network, wanted),
    refreshKeys: () => refreshKeys(dataDir, access),
    warn,
  });
  return {
    capabilities: [UPGRADE_CAPABILITY],
    facts: () => ({ watchdogVersion: link.watchdogVersion }),
    connected: (send) => statuses.attach(send),
    acknowledged({ upgrade, config }) {
      link.heartbeat();
      if (config?.releaseKeys !== undefined) {
        extendTrust(dataDir, config.releaseKeys).catch((error: unknown) => warn(String(error)));
      }
      // The watchdog may have added the end of a trial.
      void statuses.flush();
      updater.offered(upgrade);
    },
    stop: () => updater.stop(),
  };
}

async function refreshKeys(dataDir: string, access: ServerAccess): Promise<void> {
  const { status, body } = await get(access, '/agent-versions/keys').catch((error: unknown) => {
    throw new UpdateFault('KEYS_NOT_READ', String(error), true);
  });
  const answer = KeysAnswer.safeParse(body);
  if (!answer.success) {
    throw new UpdateFault('KEYS_NOT_READ', `The keys of releases were answered with ${status}.`, true);
  }
  await extendTrust(dataDir, answer.data.keys);
}
