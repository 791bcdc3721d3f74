export { Action, ConfirmAction, ConfirmDialog, CopyText, RunAction } from './action.tsx';
export { AreaPage, type Place } from './area-page.tsx';
export { saveFile, toCsv } from './csv.ts';
export { FactTable, FailedPaths, Warnings, type Facts } from './facts.tsx';
export * from './format.ts';
export { ChipChoice } from './chips.tsx';
export {
  FormFields,
  TimeOfDay,
  type TimeField,
  useForm,
  type Field,
  type Fields,
  type Form,
} from './fields.tsx';
export { FormDialog } from './forms.tsx';
export { EMAIL_INPUT, slugOf, TIME_ZONES, useSubmit } from './submit.ts';
export { ButtonLink, TextLink } from './link.tsx';
export { List, ListPage, useAddress, useLocalAddress, useSelection, type Address } from './list-page.tsx';
export { DetailsDrawer, Drawer, KeysDialog, Modal, useEscape } from './overlay.tsx';
export { MenuEntry, RowMenu } from './menu.tsx';
export { Done, Notice, PartNote } from './notes.tsx';
export { focusOnArrival, Page, type PageProps, Panel, useIsPrinting } from './page.tsx';
export { NameCell, PagedTable, TwoLines, type Column } from './paged-table.tsx';
export { useRemembered } from './remembered.ts';
export { SavedViews } from './saved-views.tsx';
export { asError, Empty, Failure, Forbidden, Loaded, Loading } from './states.tsx';
export {
  DeviceStatusBadge,
  DeviceStatusText,
  jobState,
  MaintenanceBadge,
  maintenanceText,
  JobStateBadge,
  presenceText,
  reasonText,
  StateBadge,
  type StateLook,
  type Tone,
} from './status.tsx';
export { For, useNow, When } from './time.tsx';
export {
  OpenName,
  workColumns,
  WorkDetails,
  WorkDrawer,
  WorkList,
  workOf,
  WorkProgress,
  WorkReport,
  WorkStanding,
  type Work,
} from './work.tsx';
