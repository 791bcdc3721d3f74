import { BaseModel } from '../../platform/db/base-model.ts';
import type { Architecture, Component, OperatingSystem } from './release-name.ts';

/** One version of one component for one platform. Tenants read all of them and write none. */
export class AgentRelease extends BaseModel {
  static override tableName = 'agent_releases';
  static override hasUpdatedAt = false;
  declare version: string;
  declare component: Component;
  declare os: OperatingSystem;
  declare architecture: Architecture;
  declare source: 'github' | 'local';
  declare size: number;
  declare sha256: string;
  /** Ed25519 over the canonical manifest; base64url. */
  declare signature: string;
  declare keyId: string;
  declare notes: string | null;
  declare isPrerelease: boolean;
  declare promoted: boolean;
  /** Null for `local`. */
  declare downloadUrl: string | null;
}
