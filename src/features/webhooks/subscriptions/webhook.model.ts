import { BaseModel } from '../../../platform/db/base-model.ts';
import type { EventTypeName } from '../events/catalogue.ts';

/** Where events of an organization, or of all organizations of a partner, are sent. */
export class Webhook extends BaseModel {
  static override tableName = 'webhooks';
  declare partnerId: string;
  /** Null for one of the partner. */
  declare orgId: string | null;
  declare name: string;
  declare url: string;
  declare eventTypes: EventTypeName[];
  declare enabled: boolean;
  declare sealedSecret: string;
  declare sealedPreviousSecret: string | null;
  declare previousSecretUntil: Date | null;
  declare disabledReason: 'gone' | 'failing' | null;
  declare alertedOrgId: string | null;
  declare dueAt: Date | null;
  declare pausedUntil: Date | null;
  declare failures: number;
  declare failingSince: Date | null;
  declare lastSuccessAt: Date | null;
  declare leaseId: string | null;
  declare leaseUntil: Date | null;
  declare createdBy: string | null;
}
