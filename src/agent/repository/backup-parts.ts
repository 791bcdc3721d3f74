import type { Network } from '../os/network/network.ts';
import type { LocalEngine } from './local-engine.ts';

/** What the commands of backups share. */
export interface BackupParts {
  engine: LocalEngine;
  /** The address of the server that this machine is enrolled at. */
  server: string;
  network: Network;
  /** All files of the agent. They are never part of a backup, because its token is among them. */
  dataDir: string;
  /** A private folder in it, for restic's cache and for files that are being restored. */
  folder: string;
  /** Whether files are read from shadow copies of their volumes: on Windows, where nothing else is said. */
  hasShadowCopies?: boolean;
  warn: (message: string) => void;
}
