/** What is backed up without a device, and belongs to a feature that builds on this one. */
export interface ReadinessSource {
  /**
   * A `select` of `id`, `org_id` and `name` of each configuration, with `score`, `rpo_minutes`, `risks` and
   * `calculated_at` as they are of devices, and `is_failing`, `is_late` and `is_unprotected`.
   */
  rows: string;
}
