/** The words that alerts, alert rules and notifications have in common. Pure, so that pure files may import them. */
export {
  ALERT_KINDS,
  alertKindInSentence,
  alertKindText,
  kindOf,
  REPORTED_KINDS,
  SEVERITIES,
  type Severity,
  wordsOfKind,
} from './alert-kinds.ts';
export { counted, minutesText } from './minutes.ts';
