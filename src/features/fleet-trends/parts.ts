import { alertTrend } from '../alerts/index.ts';
import { backupTrend } from '../backup/index.ts';
import { deviceTrend } from '../devices/index.ts';
import type { DayFigure } from '../trend-part.ts';

/** What is counted, each part by the feature that owns its tables. No feature imports this one. */
export const PARTS = [deviceTrend, alertTrend, backupTrend] as const;

export type Figure =
  | keyof typeof deviceTrend.figures
  | keyof typeof alertTrend.figures
  | keyof typeof backupTrend.figures;

export const FIGURES: Readonly<Record<Figure, DayFigure>> = {
  ...deviceTrend.figures,
  ...alertTrend.figures,
  ...backupTrend.figures,
};
