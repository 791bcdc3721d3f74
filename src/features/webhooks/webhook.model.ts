import type { RelationMappings } from 'objection';
import { BaseModel } from '../../platform/db/base-model.ts';
import type { RetentionRule } from '../../platform/db/retention-rule.ts';
import { Organization } from '../organizations/index.ts';
import type { EventTypeName } from './event-catalogue.ts';

/** A URL to which events of an organization, or of all organizations of a partner, are sent. */
export class Webhook extends BaseModel {
  static override tableName = 'webhooks';
  declare partnerId: string;
  /** Null if the webhook belongs to the partner. */
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

  static override relationMappings: RelationMappings = {
    organization: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Organization,
      join: { from: 'webhooks.org_id', to: 'organizations.id' },
    },
  };
}

/** Something that happened in the tenant, written by triggers of the database. */
export class WebhookEvent extends BaseModel {
  static override tableName = 'webhook_events';
  static override hasUpdatedAt = false;
  declare partnerId: string;
  /** Null if the event concerns the partner itself. */
  declare orgId: string | null;
  declare type: string;
  declare data: unknown;

  static override relationMappings: RelationMappings = {
    organization: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Organization,
      join: { from: 'webhook_events.org_id', to: 'organizations.id' },
    },
  };
}

/** One event that is sent to one webhook. */
export class Delivery extends BaseModel {
  static override tableName = 'webhook_deliveries';
  static override hasUpdatedAt = false;
  declare partnerId: string;
  /** The organization of the webhook; null if the webhook belongs to the partner. */
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

  static override relationMappings: RelationMappings = {
    webhook: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Webhook,
      join: {
        from: ['webhook_deliveries.partner_id', 'webhook_deliveries.webhook_id'],
        to: ['webhooks.partner_id', 'webhooks.id'],
      },
    },
    event: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: WebhookEvent,
      join: {
        from: ['webhook_deliveries.partner_id', 'webhook_deliveries.event_id'],
        to: ['webhook_events.partner_id', 'webhook_events.id'],
      },
    },
  };
}

/** A delivery together with its event. */
export class DeliveryWithEvent extends Delivery {
  declare eventType: string;
  declare eventOrgId: string | null;
  declare eventAt: Date;
  declare data: unknown;
}

/** For how many days events are kept with the log of their deliveries, and how far back a replay can go. */
export const EVENT_DAYS = 14;

/** What is removed row by row, because it lies in partitions that are not dropped. A trigger takes the deliveries along. */
export const webhookRetention: readonly RetentionRule[] = [
  'webhook_events_former',
  'webhook_events_rest',
].map((table) => ({
  table,
  key: ['id'],
  days: EVENT_DAYS,
  isOver: (days: string) => `old.created_at < now() - make_interval(days => ${days})`,
  atOnce: 1000,
}));
