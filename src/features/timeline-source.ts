/** One kind of what happens to devices, which the feature that owns its table gives to the timeline. All SQL. */
export interface TimelineSource {
  /** As in `TimelineEntry`. */
  kind: string;
  /** What the caller needs beside `devices:read`. */
  permission?: string;
  /** The table `t` and the condition for the device: `:deviceId` of the organization `:orgId`. */
  from: string;
  /** Text that is unique within the kind and the device. */
  id: string;
  /** When it happened or began. An index finds the newest of a device by it. */
  at: string;
  /** When it ended. */
  endedAt?: string;
  /** The id of the person who caused it, and the name that was stored with it. */
  by?: string;
  byName?: string;
  /** The other fields of the entry, by their names. */
  fields: Readonly<Record<string, string>>;
}
