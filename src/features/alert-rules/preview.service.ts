import type { DetachedContext } from '../../platform/context.ts';
import type { RulePreview, RulePreviewRequest } from './alert-rule.schema.ts';

export function previewRule(_ctx: DetachedContext, _request: RulePreviewRequest): Promise<RulePreview> {
  throw new Error('not yet');
}
