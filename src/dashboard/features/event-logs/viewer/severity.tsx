import {
  IconAlertOctagon,
  IconAlertTriangle,
  IconCircleX,
  IconInfoCircle,
  IconMessageDots,
  type Icon,
} from '@tabler/icons-react';
import type { LogLevel } from '../../../../protocol/index.ts';
import { LEVEL_NAMES } from '../model/log-row.ts';
import styles from './severity.module.css';

const ICONS: Record<LogLevel, Icon> = {
  critical: IconAlertOctagon,
  error: IconCircleX,
  warning: IconAlertTriangle,
  information: IconInfoCircle,
  verbose: IconMessageDots,
};

/** A severity by icon, word and colour. */
export function Severity({ level, count }: { level: LogLevel; count?: number | undefined }) {
  const Shown = ICONS[level];
  return (
    <span className={`${styles['severity']} ${styles[level]}`}>
      <Shown size={14} aria-hidden />
      {LEVEL_NAMES[level]}
      {count !== undefined && count > 0 && ` ${count.toLocaleString()}`}
    </span>
  );
}

/** Where there is no room for the word, it is said to readers of screens and to the pointer. */
export function SeverityIcon({ level }: { level: LogLevel }) {
  const Shown = ICONS[level];
  return (
    <span className={styles[level]} title={LEVEL_NAMES[level]}>
      <Shown size={14} aria-label={LEVEL_NAMES[level]} role="img" />
    </span>
  );
}
