import type * as raw from "./node_modules/@grafana/schema/dist/types/raw/dashboard/x/types.gen";
import type { Options as StatOptions } from "./node_modules/@grafana/schema/dist/types/raw/composable/stat/panelcfg/x/types.gen";
import type { Options as TimeSeriesOptions, FieldConfig as TimeSeriesFields } from "./node_modules/@grafana/schema/dist/types/raw/composable/timeseries/panelcfg/x/types.gen";

interface Query { refId: string; datasource: raw.DataSourceRef; expr: string; legendFormat?: string; instant?: boolean }
type Of<Type, Options, Custom> = Omit<raw.Panel, "type" | "options" | "fieldConfig" | "targets"> & {
  type: Type;
  options?: Partial<Options>;
  targets: Query[];
  fieldConfig: { defaults: Omit<raw.FieldConfig, "custom"> & { custom?: Partial<Custom> }; overrides: raw.FieldConfigSource["overrides"] };
};
export type Board = Omit<raw.Dashboard, "panels"> & {
  panels: (Of<"stat", StatOptions, Record<string, never>> | Of<"timeseries", TimeSeriesOptions, TimeSeriesFields>)[];
};
