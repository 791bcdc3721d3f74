import { BaseModel } from '../../../platform/db/base-model.ts';

/** A token of a device's agent, by its hash. */
export class AgentCredential extends BaseModel {
  static override tableName = 'agent_credentials';
  static override idColumn = 'token_hash';
  static override hasOwnId = false;
  static override hasUpdatedAt = false;
  declare tokenHash: string;
  declare deviceId: string;
  declare orgId: string;
  declare staged: boolean;
  /** The id that the agent uses in paths, where its machine has replaced another one. */
  declare enrolledAs: string | null;
  declare revokedAt: Date | null;
}
