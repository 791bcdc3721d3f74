import { BaseModel } from '../../../platform/db/base-model.ts';

/** One event on its way to one webhook. */
export class Delivery extends BaseModel {
  static override tableName = 'webhook_deliveries';
  static override hasUpdatedAt = false;
  declare partnerId: string;
  /** Of the webhook. */
  declare orgId: string | null;
  declare webhookId: string;
  declare eventId: string;
  declare status: 'pending' | 'delivered' | 'failed';
  declare isReplay: boolean;
  declare attempts: number;
  declare nextAttemptAt: Date | null;
  declare lastAttemptAt: Date | null;
  declare responseStatus: number | null;
  declare responseExcerpt: string | null;
  declare durationMs: number | null;
  declare error: string | null;
  declare endedAt: Date | null;
}

/** A delivery together with its event. */
export class DeliveryWithEvent extends Delivery {
  declare eventType: string;
  declare eventOrgId: string | null;
  declare eventAt: Date;
  declare data: unknown;
}
