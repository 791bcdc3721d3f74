export { useTargetFields } from './target-fields.tsx';
export { NO_TARGET, targetFormOf, targetOf, targetText } from './target-form.ts';
export { useTargetNames } from './target-names.ts';
