export { Action, ConfirmAction } from './action.tsx';
export { asError } from './as-error.ts';
export { ChipChoice } from './forms/chip-choice.tsx';
export { CopyText } from './copy.tsx';
export { saveFile, toCsv } from './csv.ts';
export { EMAIL_INPUT } from './forms/email-input.ts';
export { focusOnArrival } from './focus.ts';
export { FormDialog } from './forms/form-dialog.tsx';
export { slugOf } from './forms/slug.ts';
export * from './format.ts';
export { jobOutcome, tallyText, type JobOutcome } from './job-outcome.ts';
export { KeysDialog } from './keys-dialog.tsx';
export { NameCell } from './name-cell.tsx';
export { Page } from './page.tsx';
export { PagedTable, type Column } from './paged-table.tsx';
export { Panel } from './panel.tsx';
export { Empty, Failure, Forbidden, Loaded, Loading } from './states.tsx';
export {
  DeviceStatusBadge,
  DeviceStatusText,
  JobStateBadge,
  presenceText,
  reasonText,
  StateBadge,
  type Tone,
} from './status.tsx';
export { For, useNow, When } from './time.tsx';
export { TIME_ZONES } from './forms/time-zones.ts';
export { useSubmit } from './forms/use-submit.ts';
