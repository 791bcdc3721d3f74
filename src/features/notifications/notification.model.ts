import type { RelationMappings } from 'objection';
import { BaseModel } from '../../platform/db/base-model.ts';
import type { RetentionRule } from '../../platform/db/retention-rule.ts';
import type { AlertSeverity } from '../alerts/index.ts';
import { chosenDays, DEFAULT_ALERT_DAYS } from '../log-retention/index.ts';
import { Organization } from '../organizations/index.ts';
import { User } from '../users/index.ts';
import type { ChannelDetails, ChannelType } from './channel.schema.ts';
import type { NotificationReason, NotificationStatus } from './notification.schema.ts';
import type { EscalatesUntil, GroupBy, PolicyMatch, WeeklyHours } from './policy.schema.ts';

const ofOrganization = (table: string): RelationMappings => ({
  organization: {
    relation: BaseModel.BelongsToOneRelation,
    modelClass: Organization,
    join: { from: `${table}.org_id`, to: 'organizations.id' },
  },
});

/** A way to reach people: an address, a room of a chat, a service that pages. */
export class NotificationChannel extends BaseModel {
  static override tableName = 'notification_channels';
  static override jsonAttributes = ['details'];
  declare partnerId: string;
  /** Null if it belongs to the partner. */
  declare orgId: string | null;
  declare name: string;
  declare type: ChannelType;
  declare details: ChannelDetails;
  declare sealedSecret: string | null;
  declare failingSince: Date | null;
  declare lastError: string | null;
  declare lastSuccessAt: Date | null;
  declare pausedUntil: Date | null;
  declare createdBy: string | null;

  static override relationMappings = ofOrganization('notification_channels');
}

/** As it is stored: both lists are there. */
export interface StoredStep {
  afterMinutes: number;
  channelIds: string[];
  userIds: string[];
}

export class NotificationPolicy extends BaseModel {
  static override tableName = 'notification_policies';
  static override jsonAttributes = ['match', 'steps'];
  declare partnerId: string;
  declare orgId: string | null;
  declare position: number;
  declare name: string;
  declare enabled: boolean;
  declare match: PolicyMatch;
  declare steps: StoredStep[];
  declare repeatEveryMinutes: number | null;
  declare groupBy: GroupBy;
  declare groupSeconds: number;
  declare until: EscalatesUntil;
  declare createdBy: string | null;

  static override relationMappings = ofOrganization('notification_policies');
}

/** One message to one recipient. */
export class Notification extends BaseModel {
  static override tableName = 'notifications';
  static override hasUpdatedAt = false;
  static override jsonAttributes = ['content'];
  declare partnerId: string;
  declare orgId: string;
  declare groupId: string | null;
  declare policyId: string | null;
  declare step: number | null;
  declare reason: NotificationReason;
  declare status: NotificationStatus;
  declare channelId: string | null;
  declare userId: string | null;
  declare recipient: string;
  declare title: string;
  declare severity: AlertSeverity;
  declare alertCount: number;
  declare alertId: string | null;
  declare content: unknown;
  declare attempts: number;
  declare isInDoubt: boolean;
  declare error: string | null;
  declare sentAt: Date | null;

  static override relationMappings: RelationMappings = {
    ...ofOrganization('notifications'),
    user: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: User,
      join: { from: 'notifications.user_id', to: 'users.id' },
    },
  };
}

export class NotificationSettings extends BaseModel {
  static override tableName = 'notification_settings';
  static override idColumn = 'user_id';
  static override hasOwnId = false;
  static override jsonAttributes = ['quietHours'];
  declare userId: string;
  declare address: string | null;
  declare phone: string | null;
  declare quietHours: WeeklyHours | null;
  declare criticalBreaksQuietHours: boolean;
  declare severities: AlertSeverity[] | null;
  /** Alerts go to `address` while it is this one. */
  declare verifiedAddress: string | null;
  declare addressCodeHash: string | null;
  declare addressCodeEndsAt: Date | null;

  static override relationMappings: RelationMappings = {
    user: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: User,
      join: { from: 'notification_settings.user_id', to: 'users.id' },
    },
  };
}

/** As long as alerts. What an open conversation has said is kept, because those who were told are told its end. */
export const notificationRetention: readonly RetentionRule[] = [
  {
    table: 'notifications',
    key: ['id'],
    days: DEFAULT_ALERT_DAYS,
    isOver: (days) => `old.created_at < now() - make_interval(days => ${days})
      and not exists (select from notification_groups g where g.id = old.group_id and g.state <> 'closed')`,
    organization: { chosenDays: chosenDays('alert_days') },
  },
  {
    table: 'notification_groups',
    key: ['id'],
    days: DEFAULT_ALERT_DAYS,
    isOver: (days) => `old.closed_at < now() - make_interval(days => ${days})`,
    organization: { chosenDays: chosenDays('alert_days') },
    // The alerts of each go with it.
    atOnce: 200,
  },
];
